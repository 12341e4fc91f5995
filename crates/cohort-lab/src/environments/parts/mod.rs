//! What environments are made of.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`linear`] | what does a user answer, where rewards are linear? |
//! | [`laws`] | how are contexts and noise drawn? |
//! | [`centres`] | where are the clusters, and who is in which? |
//! | [`people`] | what else sets users apart? |
//! | [`visited`] | who comes besides, and when? |

pub mod centres;
pub mod laws;
pub mod linear;
pub mod people;
pub mod visited;
