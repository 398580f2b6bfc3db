//! Whether a value is what a JSON Schema (draft 7) asks for, as far as configuration entries need it.
//!
//! Knows the keywords that say what a value may be. It must not know entries. Formats, content encodings and references
//! into other documents are not looked at: the first two pass, the last is a schema that cannot be used. A complete
//! validator would make up a third of the binary; tests hold this one to it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::Regex;
use serde_json::{Map, Value};

/// Deepest nesting of schemas in schemas, references followed included.
const DEPTH: usize = 64;
/// How much of a value a message repeats, in code points.
const SHOWN: usize = 200;
/// The engine's words for a value that none of several schemas allows.
const NONE_FITS: &str = "is not valid under any of the schemas listed in the";

/// Everything about `value` that `schema` does not allow, in words; `Err` if the schema itself cannot be used.
pub(super) fn violations(schema: &Value, value: &Value) -> Result<Vec<String>, String> {
    let document = Document { root: schema, patterns: RefCell::default() };
    let mut check = Check { document: &document, violations: Vec::new() };
    check.value(schema, value, "", 0)?;
    Ok(check.violations)
}

/// The whole of a schema.
struct Document<'a> {
    root: &'a Value,
    /// Compiled when first met, since a list has a thousand items of one schema.
    patterns: RefCell<HashMap<&'a str, Rc<Regex>>>,
}

impl<'a> Document<'a> {
    fn regex(&self, text: &'a str) -> Result<Rc<Regex>, String> {
        if let Some(known) = self.patterns.borrow().get(text) {
            return Ok(Rc::clone(known));
        }
        let regex = Regex::new(text).map_err(|_| format!("the pattern `{text}` cannot be used"))?;
        let regex = Rc::new(regex);
        self.patterns.borrow_mut().insert(text, Rc::clone(&regex));
        Ok(regex)
    }
}

/// What a keyword does not allow; in the engine's words where they were recorded.
fn said(keyword: &str, operand: &Value, value: &Value, path: &str) -> String {
    let shown = beginning(value);
    match (keyword, operand) {
        ("type", Value::String(_)) => format!("{shown} is not of type {operand}"),
        ("minimum", _) => format!("{shown} is less than the minimum of {operand}"),
        ("maximum", _) => format!("{shown} is greater than the maximum of {operand}"),
        _ => format!("{} does not fit `{keyword}`: {operand}", place(path)),
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the value" } else { path }
}

/// A value as far as a message shows it.
fn beginning(value: &Value) -> String {
    let text = value.to_string();
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
    text[..end].to_owned()
}

struct Check<'d, 'a> {
    document: &'d Document<'a>,
    violations: Vec<String>,
}

impl<'a> Check<'_, 'a> {
    fn violated(&mut self, path: &str, what: &str) {
        self.violations.push(format!("{} {what}", place(path)));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &str, depth: usize) -> Result<(), String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {
                self.violated(path, "is not allowed");
                return Ok(());
            }
            Value::Object(keywords) if depth <= DEPTH => keywords,
            Value::Object(_) => return Err("schemas are nested too deeply".to_owned()),
            _ => return Err(format!("{schema} is not of types \"boolean\", \"object\"")),
        };
        if let Some(reference) = keywords.get("$ref") {
            // Whatever stands beside a reference does not count.
            let target =
                reference.as_str().and_then(|text| self.document.root.pointer(text.strip_prefix('#')?));
            let target = target.ok_or_else(|| format!("`$ref` {reference} leads nowhere in this schema"))?;
            return self.value(target, value, path, depth + 1);
        }
        for (keyword, operand) in keywords {
            if let Some(fits) = self.document.plain(keyword, operand, value)?
                && !fits
            {
                self.violations.push(said(keyword, operand, value, path));
            }
        }
        self.combinations(keywords, value, path, depth)?;
        match value {
            Value::Object(members) => self.members(keywords, members, path, depth),
            Value::Array(items) => self.items(keywords, items, path, depth),
            _ => Ok(()),
        }
    }

    /// Whether a value fits, without a word about why not.
    fn fits(&self, schema: &'a Value, value: &Value, depth: usize) -> Result<bool, String> {
        let mut check = Check { document: self.document, violations: Vec::new() };
        check.value(schema, value, "", depth + 1)?;
        Ok(check.violations.is_empty())
    }

    fn combinations(
        &mut self,
        keywords: &'a Map<String, Value>,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), String> {
        for part in schemas(keywords, "allOf")? {
            self.value(part, value, path, depth + 1)?;
        }
        for (keyword, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            if !keywords.contains_key(keyword) {
                continue;
            }
            let mut fitting = 0;
            for part in schemas(keywords, keyword)? {
                fitting += usize::from(self.fits(part, value, depth)?);
            }
            if fitting == 0 || fitting > most {
                let how = if fitting == 0 {
                    NONE_FITS
                } else {
                    "is valid under more than one of the schemas listed in the"
                };
                self.violations.push(format!("{} {how} '{keyword}' keyword", beginning(value)));
            }
        }
        if let Some(not) = keywords.get("not")
            && self.fits(not, value, depth)?
        {
            self.violated(path, "fits what `not` rules out");
        }
        if let Some(condition) = keywords.get("if") {
            let branch = if self.fits(condition, value, depth)? { "then" } else { "else" };
            if let Some(branch) = keywords.get(branch) {
                self.value(branch, value, path, depth + 1)?;
            }
        }
        Ok(())
    }

    fn members(
        &mut self,
        keywords: &'a Map<String, Value>,
        members: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), String> {
        for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten() {
            if name.as_str().is_some_and(|name| !members.contains_key(name)) {
                self.violated(path, &format!("lacks {name}"));
            }
        }
        let of = |keyword: &str| keywords.get(keyword).and_then(Value::as_object);
        let mut patterns = Vec::new();
        for (pattern, schema) in of("patternProperties").into_iter().flatten() {
            patterns.push((self.document.regex(pattern)?, schema));
        }
        let mut unexpected = Vec::new();
        for (name, value) in members {
            let path = format!("{path}/{name}");
            let named = of("properties").and_then(|properties| properties.get(name));
            let matching = patterns.iter().filter(|(pattern, _)| pattern.is_match(name));
            let mut known: Vec<&Value> =
                named.into_iter().chain(matching.map(|(_, schema)| *schema)).collect();
            if known.is_empty() {
                match keywords.get("additionalProperties") {
                    Some(Value::Bool(false)) => unexpected.push(format!("'{name}'")),
                    schema => known.extend(schema),
                }
            }
            for schema in known {
                self.value(schema, value, &path, depth + 1)?;
            }
            if let Some(schema) = keywords.get("propertyNames") {
                self.value(schema, &Value::from(name.as_str()), &path, depth + 1)?;
            }
        }
        if !unexpected.is_empty() {
            let were = if unexpected.len() == 1 { "was" } else { "were" };
            let names = unexpected.join(", ");
            self.violations
                .push(format!("Additional properties are not allowed ({names} {were} unexpected)"));
        }
        for (_, dependency) in
            of("dependencies").into_iter().flatten().filter(|(name, _)| members.contains_key(*name))
        {
            match dependency {
                Value::Array(names) => {
                    for name in names
                        .iter()
                        .filter(|name| !name.as_str().is_some_and(|name| members.contains_key(name)))
                    {
                        self.violated(path, &format!("lacks {name}"));
                    }
                }
                schema => self.value(schema, &Value::Object(members.clone()), path, depth + 1)?,
            }
        }
        Ok(())
    }

    fn items(
        &mut self,
        keywords: &'a Map<String, Value>,
        items: &[Value],
        path: &str,
        depth: usize,
    ) -> Result<(), String> {
        for (at, item) in items.iter().enumerate() {
            let schema = match keywords.get("items") {
                Some(Value::Array(places)) => places.get(at).or_else(|| keywords.get("additionalItems")),
                every => every,
            };
            if let Some(schema) = schema {
                self.value(schema, item, &format!("{path}/{at}"), depth + 1)?;
            }
        }
        if let Some(schema) = keywords.get("contains") {
            let mut found = false;
            for item in items {
                found = found || self.fits(schema, item, depth)?;
            }
            if !found {
                self.violated(path, "has no item that fits `contains`");
            }
        }
        Ok(())
    }
}

fn schemas<'a>(keywords: &'a Map<String, Value>, keyword: &str) -> Result<&'a [Value], String> {
    match keywords.get(keyword) {
        None => Ok(&[]),
        Some(Value::Array(parts)) if !parts.is_empty() => Ok(parts),
        Some(other) => Err(format!("`{keyword}` is a list of schemas, not `{other}`")),
    }
}

impl<'a> Document<'a> {
    /// Whether a value fits a keyword that needs no other schema; `None` for all other keywords.
    fn plain(&self, keyword: &str, operand: &'a Value, value: &Value) -> Result<Option<bool>, String> {
        let count = |actual: Option<usize>, fits: fn(f64, f64) -> bool| {
            #[allow(clippy::cast_precision_loss)] // nothing that long can be counted here
            compared(actual.map(|actual| actual as f64), operand, keyword, fits)
        };
        let number = |fits: fn(f64, f64) -> bool| compared(value.as_f64(), operand, keyword, fits);
        let letters = || value.as_str().map(|text| text.chars().count());
        let items = || value.as_array().map(Vec::len);
        let members = || value.as_object().map(Map::len);
        let fits = match keyword {
            "type" => is_of_type(operand, value)?,
            "enum" => operand.as_array().is_some_and(|allowed| allowed.iter().any(|one| same(one, value))),
            "const" => same(operand, value),
            "minimum" => number(|actual, bound| actual >= bound)?,
            "maximum" => number(|actual, bound| actual <= bound)?,
            "exclusiveMinimum" => number(|actual, bound| actual > bound)?,
            "exclusiveMaximum" => number(|actual, bound| actual < bound)?,
            "multipleOf" => number(|actual, step| (actual / step).fract() == 0.0)?,
            "minLength" => count(letters(), |actual, bound| actual >= bound)?,
            "maxLength" => count(letters(), |actual, bound| actual <= bound)?,
            "minItems" => count(items(), |actual, bound| actual >= bound)?,
            "maxItems" => count(items(), |actual, bound| actual <= bound)?,
            "minProperties" => count(members(), |actual, bound| actual >= bound)?,
            "maxProperties" => count(members(), |actual, bound| actual <= bound)?,
            "pattern" => {
                let pattern = self.regex(operand.as_str().ok_or("`pattern` is text")?)?;
                value.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "uniqueItems" if operand == true => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().enumerate().all(|(at, item)| !items[..at].iter().any(|other| same(item, other)))
            }
            _ => return Ok(None),
        };
        Ok(Some(fits))
    }
}

/// What a bound does not apply to fits it.
fn compared(
    actual: Option<f64>,
    bound: &Value,
    keyword: &str,
    fits: fn(f64, f64) -> bool,
) -> Result<bool, String> {
    let bound = bound.as_f64().ok_or_else(|| format!("`{keyword}` is a number, not `{bound}`"))?;
    Ok(actual.is_none_or(|actual| fits(actual, bound)))
}

fn is_of_type(types: &Value, value: &Value) -> Result<bool, String> {
    let is = |name: &Value| {
        Ok(match name.as_str() {
            Some("null") => value.is_null(),
            Some("boolean") => value.is_boolean(),
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("number") => value.is_number(),
            Some("integer") => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            _ => return Err(format!("{name} {NONE_FITS} 'anyOf' keyword")),
        })
    };
    match types {
        Value::Array(names) => names.iter().try_fold(false, |found, name| Ok(is(name)? || found)),
        name => is(name),
    }
}

/// Equality of JSON values: `1` is `1.0`, at any depth.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::config::configuration_schema;

    /// A complete validator of our own schema.
    static OWN: LazyLock<(Value, jsonschema::Validator)> = LazyLock::new(|| {
        let schema = configuration_schema();
        let validator = jsonschema::draft7::new(&schema).unwrap();
        (schema, validator)
    });

    fn agrees(schema: &Value, reference: &jsonschema::Validator, value: &Value) {
        let found = violations(schema, value).unwrap();
        assert_eq!(found.is_empty(), reference.is_valid(value), "{schema} {value} {found:?}");
    }

    fn agrees_on_ours(value: &Value) {
        agrees(&OWN.0, &OWN.1, value);
    }

    #[test]
    fn our_own_schema_means_what_it_means_to_a_complete_validator() {
        let mistakes: Vec<Value> =
            serde_json::from_str(include_str!("../../../tests/cases/not-rules.json")).unwrap();
        for mistake in mistakes {
            agrees_on_ours(&json!({"rules": ["a", mistake]}));
        }
        for value in [
            json!({}),
            json!({"rules": ["!approval::*", "été::*"], "default_mode": "auto"}),
            json!([]),
            json!({"x": 1}),
        ] {
            agrees_on_ours(&value);
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_told_apart_from_a_value_that_does_not_fit() {
        for schema in [
            json!({"$ref": "other.json"}),
            json!({"$ref": "#/nowhere"}),
            json!({"$ref": "#"}),
            json!({"type": "text"}),
            json!({"pattern": "("}),
            json!({"minimum": "1"}),
            json!({"anyOf": []}),
            json!("object"),
        ] {
            assert!(violations(&schema, &json!("x")).is_err(), "{schema}");
        }
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_place() {
        let schema = json!({"properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]});
        let found = violations(&schema, &json!({"a": [1, "x"]})).unwrap();
        assert_eq!(found, ["the value lacks \"b\"", "\"x\" is not of type \"integer\""]);
    }

    /// Schemas of every keyword, over the values that `values` makes.
    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            prop::sample::select(vec![
                json!({"type": "integer"}),
                json!({"type": ["string", "null"]}),
                json!({"type": "object"}),
                json!({"type": "number"}),
                json!({"enum": [1, "a", null, [1.0]]}),
                json!({"const": {"a": 1}}),
                json!({"minimum": 1}),
                json!({"maximum": 1.5}),
                json!({"exclusiveMinimum": 1}),
                json!({"exclusiveMaximum": 2}),
                json!({"multipleOf": 2}),
                json!({"minLength": 1}),
                json!({"maxLength": 1}),
                json!({"pattern": "^a"}),
                json!({"minItems": 1}),
                json!({"maxItems": 1}),
                json!({"uniqueItems": true}),
                json!({"minProperties": 1}),
                json!({"maxProperties": 1}),
                json!({"required": ["a"]}),
                json!({"dependencies": {"a": ["b"]}}),
            ]),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let one = inner.clone();
            let keyword = prop::sample::select(vec![
                "not",
                "items",
                "contains",
                "additionalProperties",
                "propertyNames",
                "if",
                "then",
                "else",
                "additionalItems",
            ]);
            prop_oneof![
                prop::collection::btree_map(keyword, one, 1..4).prop_map(|fields| json!(fields)),
                (
                    prop::sample::select(vec!["allOf", "anyOf", "oneOf", "items"]),
                    prop::collection::vec(inner.clone(), 1..3)
                )
                    .prop_map(|(keyword, parts)| json!({keyword: parts})),
                (
                    prop::sample::select(vec!["properties", "patternProperties", "dependencies"]),
                    prop::collection::btree_map("[ab]", inner, 1..3)
                )
                    .prop_map(|(keyword, parts)| json!({keyword: parts})),
            ]
        })
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4i64).prop_map(Value::from),
            Just(json!(1.0)),
            Just(json!(1.5)),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]{1,2}", inner, 0..3).prop_map(|fields| json!(fields)),
            ]
        })
    }

    /// Configurations, and rules, some of whose members are as they should be.
    fn nearly_ours() -> impl Strategy<Value = Value> {
        let word =
            prop::sample::select(vec!["auto", "manual", "allow", "deny", "shell::*", "!x::*", " a", "("]);
        let member = prop_oneof![
            word.clone().prop_map(Value::from),
            prop::collection::vec(word, 0..3).prop_map(Value::from),
            any_value(),
            "[ab]".prop_map(|text| json!({"v": {"matches": text}})),
            any_value().prop_map(|value| json!({"v": {"equals": value}})),
        ];
        let names = [
            "rules",
            "default_mode",
            "grant_reask_limit",
            "function",
            "action",
            "modes",
            "args",
            "rule_id",
            "floor",
        ];
        prop::collection::btree_map(prop::sample::select(names.to_vec()), member, 0..6)
            .prop_map(|fields| json!(fields))
    }

    proptest! {
        #[test]
        fn any_schema_means_what_it_means_to_a_complete_validator(schema in any_schema(), value in any_value()) {
            agrees(&schema, &jsonschema::draft7::new(&schema).unwrap(), &value);
        }

        #[test]
        fn our_own_schema_does_so_for_any_value(value in nearly_ours(), rest in any_value()) {
            let mut rule = value.clone();
            rule["function"] = json!("a::*");
            rule["action"] = json!("deny");
            agrees_on_ours(&json!({"rules": [rule, rest]}));
            agrees_on_ours(&json!({"rules": [value.clone()]}));
            agrees_on_ours(&value);
        }
    }
}
