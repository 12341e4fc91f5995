//! Reading and writing of NumPy's .npy files, C order, little-endian.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>, versions 1–3.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use crate::Error;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// An array in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The numbers, the last axis fastest.
    pub values: Vec<T>,
}

/// A number type of .npy files.
pub trait Number: Copy {
    /// Its type code in files.
    const DESCR: &'static str;
    /// Its name in messages.
    const NAME: &'static str;
    /// How numbers of a file's type convert to this type, if they do.
    fn stored(descr: &str) -> Option<Stored<Self>>;
    /// Its bytes, little-endian.
    fn bytes(self) -> [u8; 8];
    /// Whether it is finite.
    fn is_finite(self) -> bool;
}

/// A number type as stored in a file.
pub struct Stored<T> {
    bytes: usize,
    read: fn(&[u8]) -> T,
}

/// The first `N` bytes.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

/// [`Number`] for a type of eight bytes, which is read from its own type or from half of it.
macro_rules! number {
    ($type:ty, $half:ty, $descr:literal, $half_descr:literal, $name:literal, $is_finite:expr) => {
        impl Number for $type {
            const DESCR: &'static str = $descr;
            const NAME: &'static str = $name;

            fn stored(descr: &str) -> Option<Stored<Self>> {
                let (bytes, read): (usize, fn(&[u8]) -> Self) = match descr {
                    $descr => (8, |bytes| <$type>::from_le_bytes(first(bytes))),
                    $half_descr => (4, |bytes| <$half>::from_le_bytes(first(bytes)).into()),
                    _ => return None,
                };
                Some(Stored { bytes, read })
            }

            fn bytes(self) -> [u8; 8] {
                self.to_le_bytes()
            }

            fn is_finite(self) -> bool {
                $is_finite(self)
            }
        }
    };
}

number!(f64, f32, "<f8", "<f4", "float64", f64::is_finite);
number!(i64, i32, "<i8", "<i4", "int64", |_| true);

/// Reads an array with these axes, say `["rounds", "users"]`. Refuses a truncated file, another
/// type or shape, an empty array, and numbers that are not finite.
pub fn read<T: Number>(path: &Path, axes: &[&str]) -> Result<Array<T>, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    parse(BufReader::new(file), length, axes).map_err(|error| match error {
        Failure::Read(source) => unreadable(source),
        Failure::Content(error) => error.at(path),
    })
}

/// Writes an array number by number: `to` should be buffered.
pub fn write<T: Number>(to: &mut impl Write, shape: &[usize], values: &[T]) -> std::io::Result<()> {
    debug_assert_eq!(shape.iter().product::<usize>(), values.len());
    let axes: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let mut header =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({axes}), }}", T::DESCR);
    // The numbers start at a multiple of 64 bytes; 10 bytes come before the header.
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');

    to.write_all(&MAGIC)?;
    to.write_all(&[1, 0])?;
    to.write_all(&(header.len() as u16).to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    for value in values {
        to.write_all(&value.bytes())?;
    }
    Ok(())
}

enum Failure {
    Read(std::io::Error),
    Content(Error),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Read(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Content(error)
    }
}

fn content(found: impl Into<String>, expected: impl Into<String>) -> Failure {
    wrong(found, expected).into()
}

fn wrong(found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::unexpected("array", found, expected)
}

fn parse<T: Number>(mut from: impl Read, length: u64, axes: &[&str]) -> Result<Array<T>, Failure> {
    let (header, numbers_at) = read_header(&mut from, length)?;
    let stored = T::stored(&header.descr).ok_or_else(|| {
        content(format!("type {}", header.descr), format!("{} ({})", T::NAME, T::DESCR))
    })?;
    check_shape(&header, axes)?;

    let bytes = length - numbers_at;
    let count = header.shape.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    let expected = count.and_then(|count| count.checked_mul(stored.bytes));
    if expected.is_none_or(|expected| expected as u64 != bytes) {
        return Err(content(
            format!("{bytes} bytes of numbers"),
            format!(
                "shape {} of {} bytes each; the file is not whole",
                shape_text(&header.shape),
                stored.bytes
            ),
        ));
    }
    let mut raw = vec![0; bytes as usize];
    from.read_exact(&mut raw)?;
    let values: Vec<T> = raw.chunks_exact(stored.bytes).map(stored.read).collect();
    let array = Array { shape: header.shape, values };
    array.check_finite()?;
    Ok(array)
}

impl<T: Number> Array<T> {
    /// The checks of [`read`], for an array from another source.
    pub fn check(&self, axes: &[&str]) -> Result<(), Error> {
        check_axes(&self.shape, axes)?;
        self.check_finite()
    }

    fn check_finite(&self) -> Result<(), Error> {
        let Some(at) = self.values.iter().position(|value| !value.is_finite()) else {
            return Ok(());
        };
        let place = place_text(&self.shape, at);
        Err(wrong(format!("NaN or infinity at {place}"), "finite numbers only"))
    }
}

/// Reads the header; returns it and the offset of the numbers.
fn read_header(from: &mut impl Read, length: u64) -> Result<(Header, u64), Failure> {
    const NPY: &str = "a .npy file (numpy.save writes them)";
    if length < 10 {
        return Err(content(format!("{length} bytes"), NPY));
    }
    let magic: [u8; 6] = read_bytes(from)?;
    if magic != MAGIC {
        return Err(content("something else", NPY));
    }
    let [version, _] = read_bytes(from)?;
    let (start, header_bytes) = match version {
        1 => (10, u64::from(u16::from_le_bytes(read_bytes(from)?))),
        2 | 3 if length >= 12 => (12, u64::from(u32::from_le_bytes(read_bytes(from)?))),
        _ => return Err(content(format!("format version {version}"), "version 1, 2 or 3")),
    };
    if start + header_bytes > length {
        return Err(content("a header that is cut off", "a whole .npy file"));
    }
    let mut header = vec![0; header_bytes as usize];
    from.read_exact(&mut header)?;
    let header = Header::parse(&String::from_utf8_lossy(&header));
    let header = header.ok_or_else(|| content("a header that says something else", NPY))?;
    Ok((header, start + header_bytes))
}

fn check_axes(shape: &[usize], axes: &[&str]) -> Result<(), Error> {
    let (found, form) = (shape_text(shape), format!("({})", axes.join(", ")));
    if shape.len() != axes.len() {
        return Err(wrong(found, format!("{} axes: {form}", axes.len())));
    }
    if shape.contains(&0) {
        return Err(wrong(found, format!("{form}, none of them 0")));
    }
    Ok(())
}

fn check_shape(header: &Header, axes: &[&str]) -> Result<(), Failure> {
    check_axes(&header.shape, axes)?;
    if header.fortran_order && axes.len() > 1 {
        return Err(content("Fortran order", "C order (numpy.ascontiguousarray makes it)"));
    }
    Ok(())
}

fn read_bytes<const N: usize>(from: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn shape_text(shape: &[usize]) -> String {
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", axes.join(", "))
}

fn place_text(shape: &[usize], mut at: usize) -> String {
    let mut place: Vec<String> = Vec::new();
    for axis in shape.iter().rev() {
        place.push((at % axis).to_string());
        at /= axis;
    }
    place.reverse();
    format!("[{}]", place.join(", "))
}

/// The Python dictionary at the start of a file.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let (_, after) = text.split_once(&format!("'{key}':"))?;
            Some(after.trim_start())
        };
        let descr = value("descr")?.strip_prefix('\'')?.split('\'').next()?.to_owned();
        let fortran_order = match value("fortran_order")? {
            text if text.starts_with("True") => true,
            text if text.starts_with("False") => false,
            _ => return None,
        };
        let (axes, _) = value("shape")?.strip_prefix('(')?.split_once(')')?;
        let axes = axes.split(',').map(str::trim).filter(|axis| !axis.is_empty());
        let shape = axes.map(|axis| axis.parse().ok()).collect::<Option<_>>()?;
        Some(Self { descr, fortran_order, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AXES: &[&str] = &["rows", "columns"];

    fn file<T: Number>(shape: &[usize], values: &[T]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, shape, values).unwrap();
        bytes
    }

    fn parse_bytes<T: Number>(bytes: &[u8], axes: &[&str]) -> Result<Array<T>, String> {
        parse(bytes, bytes.len() as u64, axes).map_err(|failure| match failure {
            Failure::Read(error) => error.to_string(),
            Failure::Content(error) => error.to_string(),
        })
    }

    /// What numpy.save writes for `np.arange(3, dtype=np.float32)`; 118 bytes of header.
    const BY_NUMPY: &[u8] = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, \
        'shape': (3,), }\x20                                                           \n\
        \x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40";

    #[test]
    fn reads_what_numpy_writes() {
        let array = parse_bytes::<f64>(BY_NUMPY, &["numbers"]).unwrap();
        assert_eq!(array, Array { shape: vec![3], values: vec![0.0, 1.0, 2.0] });
    }

    #[test]
    fn refuses_what_it_cannot_use_and_says_why() {
        let whole = file(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let nan = file(&[2, 2], &[1.0, 2.0, f64::NAN, 4.0]);
        let mut fortran = whole.clone();
        let at = fortran.windows(5).position(|word| word == b"False").unwrap();
        fortran[at..at + 5].copy_from_slice(b"True ");
        let cases: &[(&[u8], &str)] = &[
            (b"", "0 bytes"),
            (b"rows,columns\n1,2\n", "a .npy file"),
            (&whole[..40], "cut off"),
            (&whole[..whole.len() - 1], "47 bytes of numbers"),
            (&[whole.clone(), vec![0]].concat(), "49 bytes of numbers"),
            (&file::<f64>(&[0, 3], &[]), "(0, 3)"),
            (&file(&[6], &[0.5; 6]), "(6)"),
            (&file(&[2, 3], &[1i64; 6]), "type <i8"),
            (&fortran, "Fortran order"),
            (&nan, "at [1, 0]"),
        ];
        for (bytes, message) in cases {
            let error = parse_bytes::<f64>(bytes, AXES).unwrap_err();
            assert!(error.contains(message), "{error} does not say {message}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn a_shape_too_large_to_exist_is_refused_before_memory_is_asked_for() {
        let mut bytes = file(&[1, 1], &[1.0]);
        let at = bytes.windows(6).position(|word| word == b"(1, 1,").unwrap();
        bytes[at..at + 12].copy_from_slice(b"(9999999999,");
        let error = parse_bytes::<f64>(&bytes, AXES).unwrap_err();
        assert!(error.contains("array"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(rows in 1usize..5, columns in 1usize..70, seed in any::<i64>()) {
            let values: Vec<i64> = (0..rows * columns).map(|i| seed.wrapping_mul(i as i64)).collect();
            let bytes = file(&[rows, columns], &values);
            prop_assert_eq!((bytes.len() - 8 * values.len()) % 64, 0);
            let array = parse_bytes::<i64>(&bytes, AXES).unwrap();
            prop_assert_eq!(array, Array { shape: vec![rows, columns], values });
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = parse_bytes::<f64>(&bytes, AXES);
            let whole = file(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
            let at = cut.min(whole.len());
            bytes.splice(0..0, whole[..at].iter().copied());
            let _ = parse_bytes::<f64>(&bytes, AXES);
        }
    }
}
