//! The life of a claim, written once above the backends: acquiring, keeping alive, losing, releasing.

pub mod deadline;
