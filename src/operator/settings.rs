//! What a step does, as plain data.

/// One step, in the words of a pipeline file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransformSettings {
    /// Keeps the rows for which the expression is true; false and null are dropped.
    Filter {
        /// A SQL expression of the documented subset.
        expression: String,
    },
    /// Keeps the named fields, in this order.
    Select {
        /// Names of top-level fields.
        fields: Vec<String>,
    },
    /// Gives fields other names; order and values stay.
    Rename {
        /// Old and new name of each.
        map: Vec<(String, String)>,
    },
}
