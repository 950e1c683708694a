//! An object while it is being edited: borrowed until the first change.

use crate::json::{Member, Node, Object};

/// The members of an object, copied only once something about them changes.
pub(crate) struct Draft<'a> {
    original: Object<'a>,
    edited: Option<Vec<Member<'a>>>,
}

impl<'a> Draft<'a> {
    pub(crate) fn of(original: Object<'a>) -> Draft<'a> {
        Draft { original, edited: None }
    }

    pub(crate) fn is_edited(&self) -> bool {
        self.edited.is_some()
    }

    pub(crate) fn members(&self) -> &[Member<'a>] {
        self.edited.as_deref().unwrap_or(self.original)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        self.members().iter().find(|member| member.key == key).map(|member| member.value)
    }

    fn edit(&mut self) -> &mut Vec<Member<'a>> {
        self.edited.get_or_insert_with(|| self.original.to_vec())
    }

    /// Sets `key`, in its place if it is there, else at the end.
    pub(crate) fn put(&mut self, key: &'a str, value: Node<'a>) {
        let members = self.edit();
        match members.iter_mut().find(|member| member.key == key) {
            Some(member) => member.value = value,
            None => members.push(Member::new(key, value)),
        }
    }

    /// Sets `key` at the front if it is not there yet.
    pub(crate) fn put_first(&mut self, key: &'a str, value: Node<'a>) {
        if self.get(key).is_some() {
            return self.put(key, value);
        }
        self.edit().insert(0, Member::new(key, value));
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Node<'a>> {
        let value = self.get(key)?;
        self.edit().retain(|member| member.key != key);
        Some(value)
    }

    /// Gives the member called `key` another name, at the same place.
    pub(crate) fn rename(&mut self, key: &str, name: &'a str) {
        if let Some(member) = self.edit().iter_mut().find(|member| member.key == key) {
            member.key = name;
        }
    }
}

/// The entries of a map while it is walked once, in order: borrowed until the first change.
pub(crate) struct Sifted<'a> {
    original: Object<'a>,
    passed: usize,
    edited: Option<Vec<Member<'a>>>,
}

impl<'a> Sifted<'a> {
    pub(crate) fn of(original: Object<'a>) -> Sifted<'a> {
        Sifted { original, passed: 0, edited: None }
    }

    /// The next entry stays as it is.
    pub(crate) fn keep(&mut self) {
        if let Some(edited) = &mut self.edited {
            edited.push(self.original[self.passed]);
        }
        self.passed += 1;
    }

    /// The next entry gets another value.
    pub(crate) fn replace(&mut self, value: Node<'a>) {
        let key = self.original[self.passed].key;
        self.start().push(Member::new(key, value));
        self.passed += 1;
    }

    /// The next entry goes.
    pub(crate) fn skip(&mut self) {
        self.start();
        self.passed += 1;
    }

    /// The entries, if anything about them changed.
    pub(crate) fn edited(self) -> Option<Vec<Member<'a>>> {
        self.edited
    }

    fn start(&mut self) -> &mut Vec<Member<'a>> {
        self.edited.get_or_insert_with(|| self.original[..self.passed].to_vec())
    }
}
