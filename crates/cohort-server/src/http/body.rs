//! Is the body what it should be? And ids: are they such as can be kept?

use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use super::error::ApiError;
use super::large::{self, Received};

/// A body of JSON. Refusals are the service's own, with code and sentence.
pub(super) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        check_is_json(&request)?;
        read(large::receive(request).await?).await.map(Self)
    }
}

/// The same where there need be no body.
pub(super) struct MaybeJson<T>(pub Option<T>);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for MaybeJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_json = check_is_json(&request);
        let received = large::receive(request).await?;
        if received.bytes.is_empty() {
            return Ok(Self(None));
        }
        is_json?;
        // A list would be read as the fields in their order, and all of them may be absent.
        if received.bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(ApiError::new(400, "bad_body", "the body is not an object"));
        }
        read(received).await.map(|read| Self(Some(read)))
    }
}

/// JSON that was received.
pub(super) async fn read<T>(received: Received) -> Result<T, ApiError>
where
    T: DeserializeOwned + Send + 'static,
{
    match received.bytes.len() <= large::SMALL_BYTES {
        true => parse(&received.bytes),
        false => large::apart(move || parse(&received.bytes)).await?,
    }
}

/// A web page of somebody else can make a browser send a form here, but not JSON.
pub(super) fn check_is_json(request: &Request) -> Result<(), ApiError> {
    let content = request.headers().get(header::CONTENT_TYPE);
    let kind = content.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let sentence = "send JSON, with the header `Content-Type: application/json`";
    Err(ApiError::new(415, "not_json", sentence))
}

/// JSON of one form.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // Letters are checked once for the whole body, which is faster than for every word; what is wrong is said by the other.
    let read = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(bytes),
    };
    read.map_err(|why| {
        ApiError::new(400, "bad_body", format!("the body is not what is expected here: {why}"))
    })
}

/// A number without a fraction, however it is written: in JSON `2.0` is one, too.
pub(super) fn whole<'de, T: TryFrom<u64>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    whole_of(&Number::deserialize(from)?)
}

/// The same where there need be none.
pub(super) fn maybe_whole<'de, T: TryFrom<u64>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::<Number>::deserialize(from)?.map(|number| whole_of(&number)).transpose()
}

fn whole_of<T: TryFrom<u64>, E: Error>(number: &Number) -> Result<T, E> {
    // Floating-point numbers are whole and exact up to here.
    let is_exact = |number: &f64| number.fract() == 0.0 && (0.0..=2f64.powi(53)).contains(number);
    let whole = number.as_u64().or(number.as_f64().filter(is_exact).map(|number| number as u64));
    let whole = whole.and_then(|whole| T::try_from(whole).ok());
    whole.ok_or_else(|| E::custom(format_args!("{number}: expected a whole number, 0 or more")))
}

/// An id that can be kept: not empty, not too long, nothing invisible.
pub(super) fn check_id(what: &str, id: &str, max_bytes: usize) -> Result<(), ApiError> {
    if !id.is_empty() && id.len() <= max_bytes && !id.chars().any(char::is_control) {
        return Ok(());
    }
    let sentence = format!("{what} must be 1 to {max_bytes} bytes without control characters");
    Err(ApiError::new(422, "bad_id", sentence))
}

/// A name that reads well in an address.
pub(super) fn check_app_name(name: &str) -> Result<(), ApiError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('.') {
        return Ok(());
    }
    let sentence = "an app's name is 1 to 64 of a-z, 0-9, `-`, `_` and `.`, not beginning with `.`";
    Err(ApiError::new(422, "bad_name", sentence))
}

/// No more of something than is allowed in one request, and not nothing.
pub(super) fn check_count(what: &str, found: usize, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    let sentence = format!("{found} {what} in one request: expected 1 to {most}");
    Err(ApiError::new(422, "bad_count", sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        #[derive(Debug, Deserialize)]
        struct Body {
            #[serde(deserialize_with = "whole")]
            dim: usize,
            #[serde(default, deserialize_with = "maybe_whole")]
            until: Option<u64>,
        }
        let read =
            |text: &str| serde_json::from_str::<Body>(text).map(|body| (body.dim, body.until));
        assert_eq!(read(r#"{"dim": 2.0, "until": 5e3}"#).unwrap(), (2, Some(5000)));
        assert_eq!(read(r#"{"dim": 2, "until": null}"#).unwrap(), (2, None));
        for bad in ["2.5", "-1", "1e300", "\"2\"", "null", "-0.5", "1e16"] {
            assert!(read(&format!("{{\"dim\": {bad}}}")).is_err(), "{bad}");
        }
    }
}
