//! What environments are made of.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`linear`] | what does a user answer, where rewards are linear? |
//! | [`laws`] | how are contexts and noise drawn? |
//! | [`centres`] | where are the clusters, and who is in which? |

pub mod centres;
pub mod laws;
pub mod linear;
