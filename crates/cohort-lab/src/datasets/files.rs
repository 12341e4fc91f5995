//! Text files of data sets: plain or gzip, LF or CRLF, UTF-8 or ISO-8859-1.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use crate::Error;

/// The file of that name in a folder, plain or with `.gz` added; `None` if there is neither.
pub fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let packed = format!("{name}.gz");
    [name, &packed].into_iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The lines of a file without line ends, except the header.
pub fn lines(folder: &Path, name: &str) -> Result<Vec<String>, Error> {
    let path = find(folder, name).ok_or_else(|| Error::Read {
        path: folder.join(name),
        source: std::io::ErrorKind::NotFound.into(),
    })?;
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, mut bytes) = (File::open(&path)?, Vec::new());
        if path.extension().is_some_and(|extension| extension == "gz") {
            MultiGzDecoder::new(file).read_to_end(&mut bytes)?;
        } else {
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    let bytes = read().map_err(|source| Error::Read { path: path.clone(), source })?;
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
    let text = decode(bytes);
    Ok(text.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Decodes UTF-8 where valid, else ISO-8859-1, in which every byte is a character.
fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Parses the tab-separated columns of a line as whole numbers; errors name the place.
pub fn numbers<const COLUMNS: usize>(
    folder: &Path,
    name: &str,
    line_number: usize,
    line: &str,
) -> Result<[u32; COLUMNS], Error> {
    let mut out = [0; COLUMNS];
    let mut columns = line.split('\t');
    for (k, out) in out.iter_mut().enumerate() {
        let column = columns.next().map(str::trim);
        *out = column.and_then(|column| column.parse().ok()).ok_or_else(|| {
            let found = column.map_or("nothing".to_owned(), |column| format!("`{column}`"));
            // The header is line 1.
            let what = format!("line {}, column {}", line_number + 2, k + 1);
            Error::unexpected(what, found, "a whole number").at(&folder.join(name))
        })?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_line_end_encoding_and_packing_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("unix.dat"), "id\tname\n1\tcafé\n2\trock\n").unwrap();
        std::fs::write(path("dos.dat"), "id\tname\r\n1\tcafé\r\n2\trock\r\n").unwrap();
        std::fs::write(path("latin.dat"), b"id\tname\r\n1\tcaf\xE9\r\n2\trock").unwrap();
        let file = File::create(path("packed.dat.gz")).unwrap();
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packer.write_all("\u{FEFF}id\tname\n1\tcafé\n\n2\trock\n".as_bytes()).unwrap();
        packer.finish().unwrap();
        for name in ["unix.dat", "dos.dat", "latin.dat", "packed.dat"] {
            assert_eq!(lines(folder.path(), name).unwrap(), ["1\tcafé", "2\trock"], "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let error = numbers::<2>(Path::new("data"), "x.dat", 3, "7\tmany").unwrap_err();
        let text = error.to_string().replace('\\', "/");
        assert_eq!(text, "data/x.dat: line 5, column 2: found `many`, expected a whole number");
    }
}
