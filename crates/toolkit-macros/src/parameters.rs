//! The parameters of a function: the context and the arguments.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Ident, Lit, LitStr, Pat, Result, Token, Type};

use crate::attributes::{ParameterDefault, parameter_default};
use crate::docs;

/// The parameters of a tool's function, in order.
pub(crate) struct Parameters(Vec<Parameter>);

struct Parameter {
    name: Ident,
    is_mutable: bool,
    ty: Type,
    attributes: Vec<Attribute>,
    default: Option<ParameterDefault>,
    kind: ParameterKind,
}

#[derive(PartialEq)]
enum ParameterKind {
    Context,
    /// A struct with all arguments.
    AllArguments,
    SingleArgument,
}

/// The name of the parameter for all arguments.
const ALL_ARGUMENTS_NAME: &str = "args";

impl Parameters {
    pub(crate) fn read(inputs: &Punctuated<FnArg, Token![,]>) -> Result<Parameters> {
        let mut errors: Option<Error> = None;
        let mut parameters = Vec::new();
        for input in inputs {
            match Parameter::read(input) {
                Ok(parameter) => parameters.push(parameter),
                Err(error) => match &mut errors {
                    Some(errors) => errors.combine(error),
                    None => errors = Some(error),
                },
            }
        }
        if let Some(errors) = errors {
            return Err(errors);
        }
        if let Some(second) =
            parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Context).nth(1)
        {
            return Err(Error::new_spanned(&second.ty, "duplicate `&Context` parameter"));
        }
        let all = parameters.iter().find(|parameter| parameter.kind == ParameterKind::AllArguments);
        let one = parameters.iter().find(|parameter| parameter.kind == ParameterKind::SingleArgument);
        if let (Some(all), Some(_)) = (all, one) {
            return Err(Error::new(
                all.name.span(),
                "`args` holds all arguments and must be the only one; rename it to add other arguments",
            ));
        }
        if let Some(error) = parameters.iter().find_map(Parameter::misplaced_attribute) {
            return Err(error);
        }
        Ok(Parameters(parameters))
    }

    /// Returns the parameters of `call`.
    pub(crate) fn signature(&self) -> TokenStream {
        let each = self.0.iter().map(|Parameter { name, ty, .. }| quote!(#name: #ty));
        quote!(#(#each),*)
    }

    /// Returns the parameters of the original function.
    pub(crate) fn inner_signature(&self) -> TokenStream {
        let each = self.0.iter().map(|Parameter { name, ty, is_mutable, attributes, .. }| {
            let attributes = attributes.iter().filter(|attribute| !is_for_field(attribute));
            let mutable = is_mutable.then(|| quote!(mut));
            quote!(#(#attributes)* #mutable #name: #ty)
        });
        quote!(#(#each),*)
    }

    pub(crate) fn names(&self) -> TokenStream {
        let names = self.0.iter().map(|parameter| &parameter.name);
        quote!(#(#names),*)
    }

    /// Returns the type of the arguments, and the code that defines it.
    pub(crate) fn arguments(&self) -> (TokenStream, TokenStream) {
        if let Some(all) = self.0.iter().find(|parameter| parameter.kind == ParameterKind::AllArguments) {
            let ty = &all.ty;
            return (quote!(#ty), TokenStream::new());
        }
        let plain: Vec<&Parameter> =
            self.0.iter().filter(|parameter| parameter.kind == ParameterKind::SingleArgument).collect();
        if plain.is_empty() {
            return (quote!(::toolwire_toolkit::macro_support::NoArguments), TokenStream::new());
        }
        let fields = plain.iter().map(|parameter| parameter.field());
        let defaults = plain.iter().filter_map(|parameter| parameter.default_function());
        let definition = quote! {
            #[derive(
                ::toolwire_toolkit::macro_support::serde::Deserialize,
                ::toolwire_toolkit::macro_support::schemars::JsonSchema,
            )]
            #[serde(crate = "::toolwire_toolkit::macro_support::serde")]
            #[schemars(crate = "::toolwire_toolkit::macro_support::schemars")]
            struct __Arguments {
                #(#fields,)*
            }
            #(#defaults)*
        };
        (quote!(__Arguments), definition)
    }

    /// Returns the span of the arguments.
    pub(crate) fn arguments_span(&self) -> Span {
        let first = self.0.iter().find(|parameter| parameter.kind != ParameterKind::Context);
        first.map_or_else(Span::call_site, |parameter| parameter.ty.span())
    }

    /// Returns the values to pass to the function, from the generated variables.
    pub(crate) fn values(&self) -> TokenStream {
        let values = self.0.iter().map(|Parameter { name, kind, .. }| match kind {
            ParameterKind::Context => quote!(__context),
            ParameterKind::AllArguments => quote!(__arguments),
            ParameterKind::SingleArgument => quote!(__arguments.#name),
        });
        quote!(#(#values),*)
    }

    /// Returns the arguments without a doc comment.
    pub(crate) fn undescribed(&self) -> impl Iterator<Item = &Ident> {
        self.0
            .iter()
            .filter(|parameter| {
                parameter.kind == ParameterKind::SingleArgument && docs::text(&parameter.attributes).is_none()
            })
            .map(|parameter| &parameter.name)
    }
}

impl Parameter {
    fn read(input: &FnArg) -> Result<Parameter> {
        let input = match input {
            FnArg::Typed(input) => input,
            FnArg::Receiver(receiver) => {
                return Err(Error::new_spanned(
                    receiver,
                    "a tool cannot take `self`; share data through the server's `state`, available in `Context`",
                ));
            }
        };
        let Pat::Ident(pattern) = &*input.pat else {
            return Err(Error::new_spanned(
                &input.pat,
                "a parameter needs a name, because the model sees it; destructure the value in the body",
            ));
        };
        if let Some(by_reference) = &pattern.by_ref {
            return Err(Error::new_spanned(by_reference, "a parameter must be taken by value"));
        }
        let kind = kind_of(&pattern.ident, &input.ty)?;
        let mut default = None;
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tool")) {
            default = parameter_default(attribute)?.or(default);
        }
        Ok(Parameter {
            name: pattern.ident.clone(),
            is_mutable: pattern.mutability.is_some(),
            ty: (*input.ty).clone(),
            attributes: input
                .attrs
                .iter()
                .filter(|attribute| !attribute.path().is_ident("tool"))
                .cloned()
                .collect(),
            default,
            kind,
        })
    }

    /// Returns an error if an attribute for single arguments is on another parameter.
    fn misplaced_attribute(&self) -> Option<Error> {
        if self.kind == ParameterKind::SingleArgument {
            return None;
        }
        if self.default.is_some() {
            return Some(Error::new(
                self.name.span(),
                "`default` is only allowed on a single argument; in a struct, use `#[serde(default)]`",
            ));
        }
        let attribute = self.attributes.iter().find(|attribute| is_for_field(attribute))?;
        Some(Error::new_spanned(
            attribute,
            "this attribute is only allowed on a single argument or on a field of the struct",
        ))
    }

    fn field(&self) -> TokenStream {
        let Parameter { name, ty, attributes, .. } = self;
        let attributes = attributes.iter().filter(|attribute| is_for_field(attribute));
        let default = match &self.default {
            Some(ParameterDefault::TypeDefault) => quote!(#[serde(default)]),
            Some(ParameterDefault::Value(_)) => {
                let function = LitStr::new(&self.default_name().to_string(), name.span());
                quote!(#[serde(default = #function)])
            }
            None => TokenStream::new(),
        };
        let rename = self.rename();
        quote!(#(#attributes)* #rename #default #name: #ty)
    }

    /// Removes a leading `_`, which marks an unused variable in Rust and means nothing to a model.
    fn rename(&self) -> Option<TokenStream> {
        let plain = self.name.unraw().to_string();
        let served = plain.trim_start_matches('_');
        let is_renamed = self.attributes.iter().any(|attribute| {
            ["serde", "schemars"].iter().any(|name| attribute.path().is_ident(name)) && has_rename(attribute)
        });
        let keeps_name = is_renamed || served.is_empty() || served == plain;
        (!keeps_name).then(|| quote!(#[serde(rename = #served)]))
    }

    fn default_name(&self) -> Ident {
        format_ident!("__default_of_{}", self.name.unraw(), span = Span::call_site())
    }

    fn default_function(&self) -> Option<TokenStream> {
        let Some(ParameterDefault::Value(value)) = &self.default else { return None };
        let (function, ty) = (self.default_name(), &self.ty);
        let value = match value {
            Expr::Lit(ExprLit { lit: Lit::Str(_), .. }) => {
                quote_spanned!(value.span()=> ::core::convert::Into::into(#value))
            }
            other => quote!(#other),
        };
        Some(quote!(fn #function() -> #ty { #value }))
    }
}

fn kind_of(name: &Ident, ty: &Type) -> Result<ParameterKind> {
    match ty {
        Type::Reference(reference) if is_context(&reference.elem) => {
            if let Some(mutable) = &reference.mutability {
                return Err(Error::new_spanned(mutable, "the context must be `&Context`"));
            }
            Ok(ParameterKind::Context)
        }
        Type::Reference(_) => Err(Error::new_spanned(
            ty,
            "an argument must be owned: use `String` for text, `Vec<T>` for a list; only `&Context` is a reference",
        )),
        Type::ImplTrait(_) => Err(Error::new_spanned(
            ty,
            "an argument cannot be `impl Trait`: its schema is generated from its type",
        )),
        _ if is_context(ty) => Err(Error::new_spanned(ty, "the context must be `&Context`")),
        _ if name == ALL_ARGUMENTS_NAME || name == "_args" => Ok(ParameterKind::AllArguments),
        _ => Ok(ParameterKind::SingleArgument),
    }
}

fn is_context(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|name| name.ident == "Context"))
}

fn has_rename(attribute: &Attribute) -> bool {
    let mut found = false;
    // Serde reports invalid attributes.
    let _ = attribute.parse_nested_meta(|meta| {
        found |= meta.path.is_ident("rename");
        if meta.input.peek(Token![=]) {
            meta.value()?.parse::<Expr>()?;
        } else if meta.input.peek(syn::token::Paren) {
            meta.input.parse::<proc_macro2::Group>()?;
        }
        Ok(())
    });
    found
}

/// Whether an attribute belongs to the argument and not to the variable.
fn is_for_field(attribute: &Attribute) -> bool {
    ["doc", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}
