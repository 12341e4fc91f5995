//! How do objects become rows of numbers? The service's encoder, for Python.

use cohort_features::{Encoder, EncoderSettings, Features, Offer, Side};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::{BadInput, unexpected};

/// The most numbers that a vector may have: more is a mistake, and would take the machine's memory.
const MAX_DIM: i64 = 4096;

/// Makes vectors of objects, given as text in JSON.
#[pyclass(module = "cohort._engine")]
pub struct FeatureEncoder {
    encoder: Encoder,
}

fn read(side: Side, at: Option<usize>, json: &str) -> PyResult<Features> {
    Features::parse(side, json).map_err(|why| {
        let number = at.map(|at| format!(" {at}")).unwrap_or_default();
        // Where in the text a mistake is says nothing to a caller who passed an object.
        let why = why.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        BadInput::new_err(format!("{}{number}: {why}", side.name()))
    })
}

#[pymethods]
impl FeatureEncoder {
    #[new]
    fn new(dim: i64, seed: u64, interactions: Option<Vec<(String, String)>>) -> PyResult<Self> {
        if !(1..=MAX_DIM).contains(&dim) {
            let expected = format!("a whole number from 1 to {MAX_DIM}");
            return Err(unexpected("dim", dim.to_string(), expected));
        }
        let usual = EncoderSettings::default();
        let interactions = interactions.unwrap_or(usual.interactions);
        let settings = EncoderSettings { seed, interactions, constant: true };
        Ok(Self { encoder: Encoder::new(dim as usize, settings) })
    }

    /// One row an item. With `learning`, names and moments that are new are learned first.
    fn encode<'py>(
        &mut self,
        py: Python<'py>,
        items: Vec<String>,
        context: Option<String>,
        user: Option<String>,
        learning: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let read_item = |(at, json): (usize, &String)| read(Side::Item, Some(at), json);
        let items: Vec<Features> =
            items.iter().enumerate().map(read_item).collect::<PyResult<_>>()?;
        let context = context.map(|json| read(Side::Context, None, &json)).transpose()?;
        let user = user.map(|json| read(Side::User, None, &json)).transpose()?;
        let offer =
            Offer { items: items.iter().collect(), context: context.as_ref(), user: user.as_ref() };
        let refused = |why: cohort_features::TooManyPairs| BadInput::new_err(why.to_string());
        let mut rows = Vec::new();
        match learning {
            true => self.encoder.encode_seen(&offer, &mut rows).map_err(refused)?,
            false => {
                self.encoder.check(&offer).map_err(refused)?;
                self.encoder.encode(&offer, &mut rows);
            }
        }
        let rows = Array2::from_shape_vec((items.len(), self.encoder.dim()), rows)
            .map_err(|why| BadInput::new_err(why.to_string()))?;
        Ok(rows.into_pyarray(py))
    }

    /// What was seen: names, kinds, coordinates, signs, and how many share each coordinate.
    fn seen<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for named in self.encoder.names().filter(|named| named.place < self.encoder.dim()) {
            let entry = PyDict::new(py);
            entry.set_item("name", &*named.name)?;
            entry.set_item("kind", named.kind.name())?;
            entry.set_item("coordinate", named.place)?;
            entry.set_item("sign", named.sign)?;
            entry.set_item("shared", self.encoder.coordinates().shared(named.place))?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// What each feature adds to a prediction with these coefficients, by name.
    fn weights(&self, coefficients: Vec<f64>) -> PyResult<Vec<(String, f64)>> {
        let dim = self.encoder.dim();
        if coefficients.len() != dim {
            let found = format!("{} numbers", coefficients.len());
            return Err(unexpected("coefficients", found, dim.to_string()));
        }
        let weights = self.encoder.weights(&coefficients);
        Ok(weights.into_iter().map(|one| (one.name, one.part)).collect())
    }

    /// All that was learned, as bytes.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        self.encoder.save(&mut bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What [`FeatureEncoder::state`] gave, in the place of what was learned.
    fn restore(&mut self, state: &[u8]) -> PyResult<()> {
        let mut fresh = Encoder::new(self.encoder.dim(), self.encoder.settings().clone());
        fresh.load(&mut &state[..]).map_err(|why| BadInput::new_err(format!("state: {why}")))?;
        self.encoder = fresh;
        Ok(())
    }
}
