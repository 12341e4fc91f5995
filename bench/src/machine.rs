//! The machine: its description and its peak performance.

use std::fs;

use serde::{Deserialize, Serialize};

/// A description of the machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Its number of hardware threads.
    pub threads: usize,
    /// Its memory.
    pub memory_gib: f64,
    /// The compiler.
    pub rustc: String,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Self {
        let processor = (fs::read_to_string("/proc/cpuinfo").unwrap_or_default().lines())
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned());
        let rustc = std::process::Command::new("rustc").arg("--version").output();
        Self {
            processor,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: kib_of("/proc/meminfo", "MemTotal:").unwrap_or(0.0) / 1024.0 / 1024.0,
            rustc: rustc.map_or_else(
                |_| "unknown".into(),
                |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            ),
        }
    }
}

/// The peak resident memory of this process, where the system reports it.
pub fn peak_bytes() -> Option<f64> {
    Some(kib_of("/proc/self/status", "VmHWM:")? * 1024.0)
}

fn kib_of(file: &str, key: &str) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Runs a loop of fused multiply-adds in registers; returns the number of floating-point
/// operations.
pub fn multiply_add_in_registers() -> f64 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the instruction set was detected.
            return unsafe { avx512() };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the instruction set was detected.
            return unsafe { avx2() };
        }
    }
    portable()
}

/// The iterations of a loop.
const TIMES: usize = 200_000;

/// The loop for an instruction set, with as many independent sums as its registers hold.
#[cfg(target_arch = "x86_64")]
macro_rules! multiply_add {
    ($name:ident, $feature:literal, $lanes:literal, $sums:literal, $fmadd:ident, $set1:ident) => {
        #[target_feature(enable = $feature)]
        fn $name() -> f64 {
            use std::arch::x86_64::{$fmadd, $set1};
            let factor = std::hint::black_box($set1(0.999));
            let term = std::hint::black_box($set1(0.001));
            let mut sums = [$set1(1.0); $sums];
            for _ in 0..TIMES {
                for sum in &mut sums {
                    *sum = $fmadd(*sum, factor, term);
                }
            }
            std::hint::black_box(sums);
            (2 * $lanes * $sums * TIMES) as f64
        }
    };
}

#[cfg(target_arch = "x86_64")]
multiply_add!(avx512, "avx512f", 8, 24, _mm512_fmadd_pd, _mm512_set1_pd);
#[cfg(target_arch = "x86_64")]
multiply_add!(avx2, "avx2,fma", 4, 12, _mm256_fmadd_pd, _mm256_set1_pd);

/// Portable: whatever the compiler makes of multiply and add.
fn portable() -> f64 {
    const SUMS: usize = 16;
    let (factor, term) = std::hint::black_box((0.999, 0.001));
    let mut sums = [1.0f64; SUMS];
    for _ in 0..TIMES {
        for sum in &mut sums {
            *sum = *sum * factor + term;
        }
    }
    std::hint::black_box(sums);
    (2 * SUMS * TIMES) as f64
}
