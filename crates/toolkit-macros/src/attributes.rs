//! Parses the options of `#[tool(..)]`.

use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, Expr, LitBool, LitStr, Result, Token, token};

/// The options of `#[tool(..)]` on a function.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) prefix: Option<LitStr>,
    pub(crate) title: Option<LitStr>,
    pub(crate) explicit: Option<LitStr>,
    pub(crate) read_only: Option<bool>,
    pub(crate) destructive: Option<bool>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) open_world: Option<bool>,
    pub(crate) task: Option<Task>,
}

/// The options of `task(..)`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Task {
    pub(crate) is_required: bool,
    pub(crate) starts_on_request: bool,
}

const SUPPORTED: &str = "`name`, `prefix`, `title`, `explicit`, `read_only`, `destructive`, `idempotent`, `open_world` and `task`";

impl Attributes {
    pub(crate) fn read(tokens: proc_macro2::TokenStream) -> Result<Attributes> {
        let mut attributes = Attributes::default();
        syn::meta::parser(|meta| attributes.take(&meta)).parse2(tokens)?;
        Ok(attributes)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "name" => {
                let text = set_text(&mut self.name, meta)?;
                check_name(&text, "a tool's name")
            }
            "prefix" => {
                let text = set_text(&mut self.prefix, meta)?;
                if text.value().is_empty() { Ok(()) } else { check_name(&text, "a prefix") }
            }
            "title" => set_text(&mut self.title, meta).map(|_| ()),
            "explicit" => {
                let text = set_text(&mut self.explicit, meta)?;
                if text.value().trim().is_empty() {
                    return Err(Error::new(
                        text.span(),
                        "an explicit action needs a name, such as \"DELETE_DOCUMENT\"",
                    ));
                }
                Ok(())
            }
            "read_only" => set_flag(&mut self.read_only, meta),
            "destructive" => {
                set_flag(&mut self.destructive, meta)?;
                self.check_hints(meta)
            }
            "idempotent" => set_flag(&mut self.idempotent, meta),
            "open_world" => set_flag(&mut self.open_world, meta),
            "task" => set_task(&mut self.task, meta),
            _ => Err(meta.error(format!("unknown attribute; `#[tool]` supports {SUPPORTED}"))),
        }?;
        if name == "read_only" { self.check_hints(meta) } else { Ok(()) }
    }

    fn check_hints(&self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if self.read_only == Some(true) && self.destructive == Some(true) {
            return Err(meta.error("`read_only` and `destructive` contradict each other"));
        }
        Ok(())
    }
}

fn check_name(text: &LitStr, what: &str) -> Result<()> {
    let value = text.value();
    let is_legal = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if value.is_empty() || !value.chars().all(is_legal) {
        return Err(Error::new(text.span(), format!("{what} must consist of letters, digits, `_` and `-`")));
    }
    Ok(())
}

fn set_text(slot: &mut Option<LitStr>, meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    if slot.is_some() {
        return Err(meta.error("duplicate attribute"));
    }
    if !meta.input.peek(Token![=]) {
        return Err(meta.error("expected a string: `= \"..\"`"));
    }
    let text: LitStr = meta.value()?.parse()?;
    *slot = Some(text.clone());
    Ok(text)
}

fn set_flag(slot: &mut Option<bool>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("duplicate attribute"));
    }
    *slot = Some(if meta.input.peek(Token![=]) { meta.value()?.parse::<LitBool>()?.value } else { true });
    Ok(())
}

fn set_task(slot: &mut Option<Task>, meta: &ParseNestedMeta<'_>) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("duplicate attribute"));
    }
    let mut task = Task::default();
    if meta.input.peek(token::Paren) {
        meta.parse_nested_meta(|inner| {
            if inner.path.is_ident("required") {
                task.is_required = true;
            } else if inner.path.is_ident("on_request") {
                task.starts_on_request = true;
            } else {
                return Err(inner.error("unknown option; `task` supports `required` and `on_request`"));
            }
            Ok(())
        })?;
    }
    *slot = Some(task);
    Ok(())
}

/// The default of a parameter.
pub(crate) enum ParameterDefault {
    /// `Default::default()` of its type.
    TypeDefault,
    Value(Expr),
}

/// Returns the default that an attribute of a parameter sets.
pub(crate) fn parameter_default(attribute: &syn::Attribute) -> Result<Option<ParameterDefault>> {
    let mut default = None;
    attribute.parse_nested_meta(|meta| {
        if !meta.path.is_ident("default") {
            return Err(meta.error(
                "on a parameter, `#[tool]` supports only `default`; for a secret, use the type `Secret<T>`",
            ));
        }
        default = Some(if meta.input.peek(Token![=]) {
            ParameterDefault::Value(meta.value()?.parse()?)
        } else {
            ParameterDefault::TypeDefault
        });
        Ok(())
    })?;
    Ok(default)
}
