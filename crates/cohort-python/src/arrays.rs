//! NumPy arrays in and out. Input is C-contiguous float64 (the Python half converts) and is read in
//! place; output is moved, not copied.

use cohort::bounds::{MAX_FEATURE, MAX_REWARD, is_feature, is_reward};
use cohort::{Arm, Contexts};
use cohort_lab::results::half_width_95;
use numpy::PyUntypedArrayMethods;
use numpy::{Element, IntoPyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use crate::errors::{refused, unexpected};
use crate::pool::on_pool;

/// An array of numbers, read in place.
pub type Numbers<'py> = PyReadonlyArrayDyn<'py, f64>;
/// An array of counts, read in place.
pub type Counts<'py> = PyReadonlyArrayDyn<'py, i64>;

/// The numbers of an array in C order.
pub fn slice<'a, T: Element>(
    what: &str,
    array: &'a PyReadonlyArrayDyn<'_, T>,
) -> PyResult<&'a [T]> {
    let expected = "C order (numpy.ascontiguousarray makes it)";
    array.as_slice().map_err(|_| unexpected(what, "another order", expected))
}

/// A shape as text, such as "(3, 4)".
pub fn shape_text(shape: &[usize]) -> String {
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", axes.join(", "))
}

/// Refuses an array with other axes; `None` is any length.
pub fn expect_shape(what: &str, found: &[usize], axes: &[(&str, Option<usize>)]) -> PyResult<()> {
    let fits = found.len() == axes.len()
        && found.iter().zip(axes).all(|(found, (_, length))| length.is_none_or(|l| l == *found));
    if fits {
        return Ok(());
    }
    let expected: Vec<String> = (axes.iter())
        .map(|(name, length)| length.map_or((*name).to_owned(), |length| length.to_string()))
        .collect();
    Err(unexpected(
        what,
        format!("shape {}", shape_text(found)),
        format!("({})", expected.join(", ")),
    ))
}

/// Contexts of one offer, (arms, dim).
pub fn contexts<'a>(array: &'a Numbers<'_>, dim: usize) -> PyResult<Contexts<'a>> {
    expect_shape("contexts", array.shape(), &[("arms", None), ("dim", Some(dim))])?;
    bounded_contexts(slice("contexts", array)?, dim)
}

/// Contexts within the bounds of the service.
pub fn bounded_contexts(values: &[f64], dim: usize) -> PyResult<Contexts<'_>> {
    let contexts = Contexts::new(values, dim).map_err(refused)?;
    match values.iter().position(|number| !is_feature(*number)) {
        None => Ok(contexts),
        Some(at) => {
            let found = format!("{:e} at arm {}, coordinate {}", values[at], at / dim, at % dim);
            let expected = format!("numbers from -{MAX_FEATURE:e} to {MAX_FEATURE:e}: scale them");
            Err(unexpected("contexts", found, expected))
        }
    }
}

/// Arms as usize, each checked to be on offer.
pub fn arms(counts: &[i64], on_offer: usize) -> PyResult<Vec<Arm>> {
    let arm = |(user, arm): (usize, &i64)| match usize::try_from(*arm) {
        Ok(arm) if arm < on_offer => Ok(arm),
        _ => {
            let expected = format!("0 to {}", on_offer - 1);
            Err(unexpected("arms", format!("{arm} at {user}"), expected))
        }
    };
    counts.iter().enumerate().map(arm).collect()
}

/// Refuses numbers that are not finite.
pub fn finite(what: &str, numbers: &[f64]) -> PyResult<()> {
    match numbers.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(at) => {
            Err(unexpected(what, format!("{} at {at}", numbers[at]), "finite numbers only"))
        }
    }
}

/// Refuses rewards that the service would refuse: one of them could spoil the model of all users.
pub fn bounded_rewards(numbers: &[f64]) -> PyResult<()> {
    match numbers.iter().position(|number| !is_reward(*number)) {
        None => Ok(()),
        Some(at) => {
            let expected = format!("numbers from -{MAX_REWARD:e} to {MAX_REWARD:e}: scale them");
            Err(unexpected("rewards", format!("{:?} at {at}", numbers[at]), expected))
        }
    }
}

/// Counts as a NumPy array.
pub fn counts(py: Python<'_>, numbers: Vec<usize>) -> Bound<'_, PyArray1<i64>> {
    numbers.into_iter().map(|number| number as i64).collect::<Vec<_>>().into_pyarray(py)
}

/// Numbers as a NumPy array of some shape.
pub fn shaped<'py, T: Element>(
    py: Python<'py>,
    numbers: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<T>>> {
    numbers.into_pyarray(py).reshape(shape.to_vec())
}

/// MAXIMAL-CLUSTER, Algorithm 3 of the paper.
#[pyfunction]
pub fn maximal_cluster<'py>(
    py: Python<'py>,
    points: Numbers<'py>,
    gamma: f64,
    min_share: f64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    expect_shape("points", points.shape(), &[("points", None), ("coordinates", None)])?;
    let (values, dim) = (slice("points", &points)?, points.shape()[1]);
    let cluster = || cohort::cluster::maximal_cluster(values, dim, gamma, min_share);
    let labels = py.detach(|| on_pool(cluster)).map_err(refused)?;
    Ok(counts(py, labels))
}

/// Half the width of the 95 % interval of the mean of every column.
#[pyfunction]
pub fn half_widths<'py>(
    py: Python<'py>,
    curves: Numbers<'py>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    expect_shape("curves", curves.shape(), &[("repetitions", None), ("rounds", None)])?;
    let (values, rounds) = (slice("curves", &curves)?, curves.shape()[1]);
    let column = |at: usize| values.iter().skip(at).step_by(rounds).copied().collect::<Vec<_>>();
    let half_width = |at| half_width_95(&column(at)).unwrap_or(f64::NAN);
    Ok((0..rounds).map(half_width).collect::<Vec<_>>().into_pyarray(py))
}
