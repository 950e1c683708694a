//! Objects that are copied only when something in them changes.

use crate::json::{Member, Node, Object};

/// The members of an object, borrowed until the first change.
pub(crate) struct ObjectEdit<'a> {
    original: Object<'a>,
    edited: Option<Vec<Member<'a>>>,
}

impl<'a> ObjectEdit<'a> {
    pub(crate) fn of(original: Object<'a>) -> ObjectEdit<'a> {
        ObjectEdit { original, edited: None }
    }

    pub(crate) fn original(&self) -> Object<'a> {
        self.original
    }

    /// Returns the members if anything about them changed.
    pub(crate) fn edited(&self) -> Option<&[Member<'a>]> {
        self.edited.as_deref()
    }

    pub(crate) fn members(&self) -> &[Member<'a>] {
        self.edited().unwrap_or(self.original)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        self.members().iter().find(|member| member.key == key).map(|member| member.value)
    }

    fn edit(&mut self) -> &mut Vec<Member<'a>> {
        self.edited.get_or_insert_with(|| self.original.to_vec())
    }

    /// Sets `key`: in its position if it exists, else at the end.
    pub(crate) fn put(&mut self, key: &'a str, value: Node<'a>) {
        let members = self.edit();
        match members.iter_mut().find(|member| member.key == key) {
            Some(member) => member.value = value,
            None => members.push(Member::new(key, value)),
        }
    }

    /// Sets `key`: in its position if it exists, else at the front.
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

    /// Renames the member called `key` in its position.
    pub(crate) fn rename(&mut self, key: &str, name: &'a str) {
        if let Some(member) = self.edit().iter_mut().find(|member| member.key == key) {
            member.key = name;
        }
    }
}

/// The entries of a map, decided on one by one in order, and borrowed until the first change.
pub(crate) struct EntryEdits<'a> {
    original: Object<'a>,
    decided: usize,
    edited: Option<Vec<Member<'a>>>,
}

impl<'a> EntryEdits<'a> {
    pub(crate) fn of(original: Object<'a>) -> EntryEdits<'a> {
        EntryEdits { original, decided: 0, edited: None }
    }

    /// Leaves the next entry as it is.
    pub(crate) fn retain(&mut self) {
        if let Some(edited) = &mut self.edited {
            edited.push(self.original[self.decided]);
        }
        self.decided += 1;
    }

    /// Gives the next entry another value.
    pub(crate) fn replace(&mut self, value: Node<'a>) {
        self.rename(self.original[self.decided].key, value);
    }

    /// Gives the next entry another key and value.
    pub(crate) fn rename(&mut self, key: &'a str, value: Node<'a>) {
        self.edit().push(Member::new(key, value));
        self.decided += 1;
    }

    /// Removes the next entry.
    pub(crate) fn remove(&mut self) {
        self.edit();
        self.decided += 1;
    }

    /// Returns the entries if any of them changed.
    pub(crate) fn finish(self) -> Option<Vec<Member<'a>>> {
        self.edited
    }

    fn edit(&mut self) -> &mut Vec<Member<'a>> {
        self.edited.get_or_insert_with(|| self.original[..self.decided].to_vec())
    }
}
