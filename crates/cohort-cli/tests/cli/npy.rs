//! .npy files made by hand: other programs' files, not what the lab itself would write.

use std::path::{Path, PathBuf};

/// A file as NumPy writes it.
pub fn bytes(descr: &str, shape: &str, numbers: &[[u8; 8]]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    bytes.extend(numbers.concat());
    bytes
}

/// Writes numbers of a shape like `(3, 2)`.
pub fn write(folder: &Path, name: &str, shape: &str, numbers: &[f64]) -> PathBuf {
    let numbers: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
    let path = folder.join(name);
    std::fs::write(&path, bytes("<f8", shape, &numbers)).expect("a temporary folder");
    path
}

/// The whole numbers of a file, which must be of this shape.
pub fn read_whole_numbers(path: &Path, shape: &str) -> Vec<i64> {
    let bytes = std::fs::read(path).expect("the file is there");
    let start = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = String::from_utf8_lossy(&bytes[10..start]).replace(' ', "");
    assert!(header.contains("'descr':'<i8'") && header.contains("'fortran_order':False"));
    let shape = shape.replace(' ', "");
    let axes = shape.trim_matches(['(', ')']).trim_end_matches(',');
    assert!(header.contains(&format!("'shape':({axes},)")), "{header} is not {shape}");
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes[start..].chunks(8).map(number).collect()
}
