//! Generates the code of a tool.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Ident, Item, ItemFn, LitStr, Result, Signature};

use crate::attributes::{Attributes, Task};
use crate::body::wrap_in_ok;
use crate::docs;
use crate::parameters::Parameters;
use crate::returns::Returns;

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> Result<TokenStream> {
    // The keyword of the item follows its attributes.
    let first_word = item.clone().into_iter().find(|token| matches!(token, TokenTree::Ident(_)));
    let function: ItemFn = match syn::parse2(item)? {
        Item::Fn(function) => function,
        _ => return Err(Error::new_spanned(first_word, "`#[tool]` must be on an `async fn`")),
    };
    let attributes = Attributes::read(attribute)?;
    check_signature(&function.sig)?;
    let parameters = Parameters::read(&function.sig.inputs)?;
    let returns = Returns::read(&function.sig.output)?;

    let (ident, visibility) = (&function.sig.ident, &function.vis);
    // The name of the type differs from that of the tool, because a module may have the name of its tool.
    let hidden = format_ident!("__tool_{}", ident.unraw());
    let (outer, inner): (Vec<&Attribute>, Vec<&Attribute>) = function
        .attrs
        .iter()
        .partition(|attribute| ["doc", "cfg"].iter().any(|name| attribute.path().is_ident(name)));
    let conditions: Vec<&&Attribute> =
        outer.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect();
    let call = call(&function, &inner, &parameters, &returns);
    let declaration = declaration(ident, &attributes, &function.attrs, &returns);
    let (arguments, made) = parameters.arguments();
    let values = parameters.values();
    // Errors about the whole function point at its name.
    let at_name = Span::call_site().located_at(ident.span());
    let reply = returns.reply(&quote_spanned!(at_name=> self.call(#values).await));
    let alias_check = returns.alias_check();
    // Errors about the arguments point at their type.
    let at_arguments = Span::call_site().located_at(parameters.arguments_span());
    let schema = quote_spanned!(at_arguments=> ::toolwire_toolkit::macro_support::arguments::<#arguments>());
    let read =
        quote_spanned!(at_arguments=> ::toolwire_toolkit::macro_support::read::<#arguments>(__arguments));
    let run = quote_spanned! {at_name=>
        ::std::boxed::Box::pin(async move {
            let __arguments = match #read {
                ::core::result::Result::Ok(arguments) => arguments,
                ::core::result::Result::Err(failure) => {
                    return ::core::convert::From::<::toolwire_toolkit::Failure>::from(failure);
                }
            };
            ::toolwire_toolkit::handler::Reply::complete(#reply)
        })
    };
    let warnings = warnings(ident, &function.attrs, &parameters);

    Ok(quote! {
        #(#conditions)*
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #hidden {}

        #(#outer)*
        #visibility fn #ident() -> #hidden {
            #hidden {}
        }

        #(#conditions)*
        impl #hidden {
            #call
        }

        #(#conditions)*
        #[allow(unused_qualifications)]
        const _: () = {
            #made

            #alias_check

            impl ::toolwire_toolkit::ToolFunction for #hidden {
                fn declaration(&self) -> ::toolwire_toolkit::Declaration {
                    let arguments = #schema;
                    #declaration
                }

                fn run<'a>(
                    &'a self,
                    __arguments: ::toolwire_toolkit::macro_support::Map<
                        ::std::string::String,
                        ::toolwire_toolkit::macro_support::Value,
                    >,
                    __context: &'a ::toolwire_toolkit::Context,
                ) -> ::toolwire_toolkit::macro_support::BoxFuture<'a, ::toolwire_toolkit::handler::CompletedCall> {
                    #run
                }
            }
        };

        #(#conditions)*
        #warnings
    })
}

fn check_signature(signature: &Signature) -> Result<()> {
    if signature.asyncness.is_none() {
        return Err(Error::new(signature.fn_token.span, "a tool must be an `async fn`"));
    }
    if let Some(token) = &signature.unsafety {
        return Err(Error::new(token.span, "a tool cannot be `unsafe`, because a model calls it"));
    }
    if let Some(abi) = &signature.abi {
        return Err(Error::new_spanned(abi, "a tool cannot be `extern`"));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "a tool cannot be generic: its schema is generated from its types",
        ));
    }
    if let Some(clause) = &signature.generics.where_clause {
        return Err(Error::new_spanned(
            clause,
            "a tool cannot be generic: its schema is generated from its types",
        ));
    }
    if let Some(variadic) = &signature.variadic {
        return Err(Error::new_spanned(variadic, "a tool cannot be variadic: every argument needs a name"));
    }
    Ok(())
}

/// Generates `call`, which runs the original function.
fn call(
    function: &ItemFn,
    attributes: &[&Attribute],
    parameters: &Parameters,
    returns: &Returns,
) -> TokenStream {
    let (visibility, ty) = (&function.vis, &returns.ty);
    let inner_signature = parameters.inner_signature();
    let doc = "Runs the function directly, without validation and logging.";
    if !returns.is_outcome() {
        let body = &function.block;
        return quote! {
            #[doc = #doc]
            #[allow(clippy::too_many_arguments)] // `self` is added to the author's parameters
            #(#attributes)*
            #visibility async fn call(self, #inner_signature) -> #ty #body
        };
    }
    let mut body = (*function.block).clone();
    wrap_in_ok(&mut body);
    let (signature, names) = (parameters.signature(), parameters.names());
    quote! {
        #[doc = #doc]
        #[allow(clippy::too_many_arguments)]
        #visibility async fn call(self, #signature) -> #ty {
            #(#attributes)*
            async fn __body(#inner_signature) -> ::core::result::Result<#ty, ::toolwire_toolkit::Failure> #body
            __body(#names).await.unwrap_or_else(::core::convert::From::from)
        }
    }
}

fn declaration(
    ident: &Ident,
    attributes: &Attributes,
    function_attributes: &[Attribute],
    returns: &Returns,
) -> TokenStream {
    let name = match &attributes.name {
        Some(name) => name.clone(),
        None => LitStr::new(&ident.unraw().to_string(), ident.span()),
    };
    let description = docs::text(function_attributes).unwrap_or_else(|| quote!(""));
    let (title, prefix) = (option(attributes.title.as_ref()), option(attributes.prefix.as_ref()));
    let explicit = option(attributes.explicit.as_ref());
    let (read_only, destructive) = (option(attributes.read_only), option(attributes.destructive));
    let (idempotent, open_world) = (option(attributes.idempotent), option(attributes.open_world));
    let task = option(attributes.task.map(|Task { is_required, starts_on_request }| {
        let start = if starts_on_request { quote!(OnRequest) } else { quote!(AtOnce) };
        quote! {
            ::toolwire_toolkit::tasks::TaskSupport {
                is_required: #is_required,
                start: ::toolwire_toolkit::tasks::TaskStart::#start,
            }
        }
    }));
    let reply = returns.reply_type();
    let output = quote_spanned!(returns.ty.span()=> <#reply as ::toolwire_toolkit::handler::Reply>::schema());
    quote! {
        ::toolwire_toolkit::Declaration {
            name: #name,
            title: #title,
            description: #description,
            prefix: #prefix,
            explicit: #explicit,
            hints: ::toolwire_toolkit::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            task: #task,
            arguments,
            output: #output,
        }
    }
}

fn option(value: Option<impl quote::ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// Generates warnings by using deprecated items, because a procedural macro cannot warn directly.
fn warnings(ident: &Ident, function_attributes: &[Attribute], parameters: &Parameters) -> TokenStream {
    let mut warnings = TokenStream::new();
    let mut warn = |at: &Ident, note: String| {
        let marked = Ident::new("NO_DESCRIPTION", at.span());
        warnings.extend(quote_spanned! {at.span()=>
            {
                #[deprecated(note = #note)]
                const #marked: () = ();
                #marked
            };
        });
    };
    if docs::text(function_attributes).is_none() {
        warn(ident, format!("the tool `{ident}` has no doc comment; the model reads it as the description"));
    }
    for argument in parameters.undescribed() {
        warn(
            argument,
            format!("the argument `{argument}` has no doc comment; the model reads it as the description"),
        );
    }
    quote!(const _: () = { #warnings };)
}
