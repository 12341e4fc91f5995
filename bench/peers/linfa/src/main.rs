//! linfa-clustering's DBSCAN on the points of a .npy file: `linfa-peer POINTS.npy GAMMA LABELS.npy`.
//!
//! Prints the seconds it took. Its least allowed `min_points` is 2: what it calls noise are the
//! points without a neighbour, each a component of its own.

use linfa::traits::Transformer;
use linfa_clustering::Dbscan;
use ndarray::Array2;
use std::{error::Error, fs, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, points, gamma, labels] = &args[..] else {
        return Err("usage: linfa-peer POINTS.npy GAMMA LABELS.npy".into());
    };
    let points = read_points(points)?;
    let params = Dbscan::params(2).tolerance(gamma.parse::<f64>()?);
    let start = Instant::now();
    let clusters = params.transform(&points)?;
    let seconds = start.elapsed().as_secs_f64();
    let found = clusters.iter().flatten().max().map_or(0, |most| most + 1);
    let own = clusters.iter().enumerate().map(|(i, cluster)| cluster.unwrap_or(found + i) as i64);
    write_labels(labels, own)?;
    println!("{seconds}");
    Ok(())
}

/// Rows of f64, as NumPy writes them in C order.
fn read_points(path: &str) -> Result<Array2<f64>, Box<dyn Error>> {
    let bytes = fs::read(path)?;
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (text, values) = (std::str::from_utf8(&bytes[10..10 + header])?, &bytes[10 + header..]);
    if !text.contains("'<f8'") || text.contains("'fortran_order': True") {
        return Err(format!("{path}: expected f64 in C order, found {text}").into());
    }
    let shape = text.split(['(', ')']).nth(1).ok_or("no shape")?;
    let shape: Vec<usize> =
        shape.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    let values = values.chunks_exact(8).map(|v| f64::from_le_bytes(v.try_into().expect("8 bytes")));
    Ok(Array2::from_shape_vec((shape[0], shape[1]), values.collect())?)
}

fn write_labels(path: &str, labels: impl ExactSizeIterator<Item = i64>) -> Result<(), Box<dyn Error>> {
    let mut header =
        format!("{{'descr': '<i8', 'fortran_order': False, 'shape': ({},), }}", labels.len());
    header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len())?.to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(labels.flat_map(i64::to_le_bytes));
    Ok(fs::write(path, bytes)?)
}
