//! Building blocks of environments.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`linear`] | how are rewards computed, where they are linear? |
//! | [`laws`] | how are contexts and noise drawn? |
//! | [`centres`] | where are the clusters, and who is in which? |
//! | [`user_options`] | how else do users differ? |
//! | [`visited`] | which users come for one visit, and when? |

pub mod centres;
pub mod laws;
pub mod linear;
pub mod user_options;
pub mod visited;
