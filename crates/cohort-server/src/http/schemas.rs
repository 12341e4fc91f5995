//! Forms that the OpenAPI document says more of than their types do.

use utoipa::openapi::schema::{
    Array, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};

/// Features of an item: a vector, or an object.
pub fn any_features() -> Schema {
    let vector = ArrayBuilder::new()
        .items(Object::with_type(Type::Number))
        .description(Some("A vector: as many numbers as the app's `dim`."));
    let json = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object)).description(Some(
        "In an app that takes JSON. Values are words (categories), numbers within ±1e30, booleans, null, lists of words \
         (sets), lists of numbers (embeddings), or such objects, eight deep at most.",
    ));
    Schema::OneOf(OneOfBuilder::new().item(vector).item(json).build())
}

/// Pairs of names.
pub fn pairs() -> Array {
    let name = Object::with_type(Type::String);
    let pair = ArrayBuilder::new().items(name).min_items(Some(2)).max_items(Some(2));
    ArrayBuilder::new().items(pair).build()
}
