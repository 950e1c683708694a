//! Makes `?` work in a body that ends with an `Outcome`.
//!
//! The body becomes that of a function that returns a `Result` of the outcome. Its return values are wrapped
//! in `Ok`, and `?` finds the expected error type. Closures, async blocks and nested items have their own
//! `return` and stay unchanged.

use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprAsync, ExprBreak, ExprClosure, ExprReturn, Item, Stmt, parse_quote, parse_quote_spanned,
};

/// Wraps all return values of the body in `Ok`.
pub(crate) fn wrap_in_ok(body: &mut Block) {
    Returns.visit_block_mut(body);
    match body.stmts.last_mut() {
        Some(Stmt::Expr(last, None)) if !diverges(last) => *last = ok(last),
        Some(Stmt::Macro(last)) if last.semi_token.is_none() => {
            let call = last.mac.clone();
            let expression: Expr = parse_quote!(#call);
            let expression = if diverges(&expression) { expression } else { ok(&expression) };
            body.stmts.pop();
            body.stmts.push(Stmt::Expr(expression, None));
        }
        _ => {}
    }
}

fn ok(expression: &Expr) -> Expr {
    let wrapped = quote_spanned!(expression.span()=> ::core::result::Result::Ok(#expression));
    Expr::Verbatim(wrapped)
}

/// Whether the expression never completes. Wrapping it would cause a warning about unreachable code.
fn diverges(expression: &Expr) -> bool {
    match expression {
        Expr::Return(_) => true,
        Expr::Macro(call) => call.mac.path.segments.last().is_some_and(|name| {
            ["todo", "unimplemented", "unreachable", "panic"].iter().any(|known| name.ident == known)
        }),
        Expr::Loop(endless) => {
            let mut breaks = Breaks(false);
            breaks.visit_block(&endless.body);
            !breaks.0
        }
        Expr::Match(choice) => choice.arms.iter().all(|arm| diverges(&arm.body)),
        Expr::If(choice) => match &choice.else_branch {
            Some((_, otherwise)) => ends_with_divergence(&choice.then_branch) && diverges(otherwise),
            None => false,
        },
        Expr::Block(block) => ends_with_divergence(&block.block),
        _ => false,
    }
}

fn ends_with_divergence(block: &Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(last, _)) if diverges(last))
}

/// Whether a `break` exists, of any loop.
struct Breaks(bool);

impl<'ast> Visit<'ast> for Breaks {
    fn visit_expr_break(&mut self, _: &'ast ExprBreak) {
        self.0 = true;
    }
}

struct Returns;

impl VisitMut for Returns {
    fn visit_expr_return_mut(&mut self, found: &mut ExprReturn) {
        visit_mut::visit_expr_return_mut(self, found);
        let value = match found.expr.take() {
            Some(value) => *value,
            None => parse_quote!(()),
        };
        let span = value.span();
        found.expr = Some(Box::new(parse_quote_spanned!(span=> ::core::result::Result::Ok(#value))));
    }

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}
