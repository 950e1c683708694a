//! Classifies the return type of a function as it is written.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, GenericArgument, PathArguments, PathSegment, Result, ReturnType, Type, parse_quote};

/// The return type of a function.
pub(crate) struct Returns {
    pub(crate) ty: Type,
    kind: Kind,
}

enum Kind {
    Outcome,
    /// A `ToolResult`, or a `Result` of that or of an `Outcome`.
    Reply,
    /// Any other value, which is wrapped in an outcome.
    Value,
    /// A `Result` of any other value.
    ResultOfValue(Box<Type>),
}

impl Returns {
    pub(crate) fn read(output: &ReturnType) -> Result<Returns> {
        let ty: Type = match output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        let kind = match last_segment(&ty) {
            Some(name) if name.ident == "Outcome" => Kind::Outcome,
            Some(name) if name.ident == "ToolResult" => Kind::Reply,
            Some(name) if name.ident == "Result" => match first_argument(name) {
                Some(inside) if is_reply(inside) => Kind::Reply,
                Some(inside) => Kind::ResultOfValue(Box::new(inside.clone())),
                None => {
                    return Err(Error::new_spanned(&ty, "write the types of the `Result`: `Result<T, E>`"));
                }
            },
            _ => Kind::Value,
        };
        match &ty {
            Type::ImplTrait(_) => Err(Error::new_spanned(
                &ty,
                "a tool cannot return `impl Trait`: its schema is generated from its type",
            )),
            Type::Reference(_) => {
                Err(Error::new_spanned(&ty, "a tool must return an owned type, such as `String`"))
            }
            _ => Ok(Returns { ty, kind }),
        }
    }

    pub(crate) fn is_outcome(&self) -> bool {
        matches!(self.kind, Kind::Outcome)
    }

    /// Returns the type that implements `Reply`.
    pub(crate) fn reply_type(&self) -> TokenStream {
        let ty = &self.ty;
        match &self.kind {
            Kind::Outcome | Kind::Reply => quote!(#ty),
            Kind::Value => quote_spanned!(ty.span()=> ::toolwire_toolkit::Outcome<#ty>),
            Kind::ResultOfValue(inside) => {
                quote_spanned!(inside.span()=> ::toolwire_toolkit::Outcome<#inside>)
            }
        }
    }

    /// Generates code that does not compile if a plain value is an alias of a special type.
    pub(crate) fn alias_check(&self) -> TokenStream {
        let value = match &self.kind {
            Kind::Outcome | Kind::Reply => return TokenStream::new(),
            Kind::Value => &self.ty,
            Kind::ResultOfValue(inside) => &**inside,
        };
        quote_spanned! {value.span()=>
            const _: fn() = || {
                <#value as ::toolwire_toolkit::macro_support::NoAliasOfOutcomeOrResult<_>>::check();
            };
        }
    }

    /// Converts the return value to a type that implements `Reply`.
    pub(crate) fn reply(&self, returned: &TokenStream) -> TokenStream {
        // Errors about the return value point at its type.
        let at_type = Span::call_site().located_at(self.ty.span());
        match self.kind {
            Kind::Outcome | Kind::Reply => returned.clone(),
            Kind::Value => quote_spanned!(at_type=> ::toolwire_toolkit::Outcome::ok(#returned)),
            Kind::ResultOfValue(_) => {
                quote_spanned!(at_type=> #returned.map(::toolwire_toolkit::Outcome::ok))
            }
        }
    }
}

fn is_reply(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|name| name.ident == "Outcome" || name.ident == "ToolResult")
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    }
}

fn first_argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(inside) => Some(inside),
        _ => None,
    })
}
