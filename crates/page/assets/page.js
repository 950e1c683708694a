// The server holds the state and sends HTML; attributes define the behaviour.

const rules = { createHTML: (html) => html };
const policy = globalThis.trustedTypes?.createPolicy('toolwire', rules) ?? rules;
const { body } = document;
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);
const listen = (types, action, target = document) => types.split(' ').forEach((type) => target.addEventListener(type, action));
const now = () => performance.now();
const get = (url) => fetch(url).then((reply) => (reply.ok ? reply.text() : Promise.reject(reply)));
const active = () => document.activeElement;
const boxOf = (element) => element.getBoundingClientRect();
const seconds = (count) => (count < 60 ? `${count} s` : `${Math.floor(count / 60)} min ${count % 60} s`);
const isOwnPath = (path) => /^\/(?![/\\])/.test(path ?? '');
const go = (path) => isOwnPath(path) && location.assign(path);
const isField = (element) => !!element.closest?.('input:not([type=checkbox],[type=radio]),textarea,select');
const isUsable = (element) => !element.disabled && element.ariaDisabled !== 'true' && element.checkVisibility();
const composer = () => find('#composer [name=text]');
const focusOn = (element) => element?.focus({ preventScroll: true });

function say(text, urgent) {
	byId(urgent ? 'alert' : 'say')?.replaceChildren(text);
}

function write(element, text) {
	if (element.textContent !== text) element.textContent = text;
}

function fragment(html) {
	const template = document.createElement('template');
	template.innerHTML = policy.createHTML(html);
	return document.importNode(template.content, true);
}

function make(tag, attributes, ...children) {
	const element = document.createElement(tag);
	for (const name in attributes) element.setAttribute(name, attributes[name]);
	element.append(...children);
	return element;
}

/** Returns the parts of a message, in which backticks mark code. */
function withCode(message) {
	return message.split(/`([^`\n]+)`/).map((part, index) => (index % 2 ? make('code', { dir: 'auto' }, part) : part));
}

function debounced(after, action) {
	let timer;
	return (value) => {
		clearTimeout(timer);
		timer = setTimeout(action, after, value);
	};
}

/** Reads or writes the browser's storage, which may be disabled. */
function keep(storage, key, value) {
	try {
		if (value === undefined) return globalThis[storage].getItem(key);
		globalThis[storage].setItem(key, value);
	} catch { /* not kept */ }
	return null;
}

// Applying events

const deferred = new Map(); // id → change of a part that is in use
const receivedAt = new Map(); // id → time of its last change from the stream
const touched = new Set(); // ids of `details` that a person opened or closed

/** Whether a part holds the focus or selected text. */
function isInUse(element) {
	const used = active();
	// A button that stays has the same id in the new part, which gets the focus.
	const isSent = used.type === 'submit' && used.form?.dataset.sent;
	if (used !== body && element.contains(used) && !isSent && !('stays' in used.dataset)) return true;
	const selection = getSelection();
	return !selection.isCollapsed && selection.containsNode(element, true);
}

/** Makes deferred changes: of parts not in use, or of those around or inside one part. */
function applyDeferred(part) {
	for (const [id, action] of [...deferred]) {
		const element = byId(id);
		if (element && (part ? !element.contains(part) && !part.contains(element) : isInUse(element))) continue;
		deferred.delete(id);
		action();
	}
}

/** Changes an element once it is not in use. Only the latest change is made. */
function change(id, force, action) {
	const element = byId(id);
	deferred.delete(id);
	if (element && !force && isInUse(element)) deferred.set(id, action);
	else action();
}

const isBox = ({ type }) => /checkbox|radio/.test(type);
function isDirty(control) {
	if (control.options) return [...control.options].some((option) => option.defaultSelected !== option.selected && (control.multiple || option.index > 0));
	if (isBox(control)) return control.checked !== control.defaultChecked;
	return !/file|hidden|submit|button/.test(control.type) && 'defaultValue' in control && control.value !== control.defaultValue;
}

/** Copies what a person folded or typed from an old part to its replacement. */
function carryOver(from, to) {
	for (const old of all('details[id]', from)) {
		const next = touched.has(old.id) && find(`#${CSS.escape(old.id)}`, to);
		if (next) next.open = old.open;
	}
	for (const old of all(':is(input,textarea,select)[name]:not([data-fresh])', from).filter(isDirty)) {
		// Several forms may have a field of this name.
		const home = `#${CSS.escape(old.closest('[id]').id)}`;
		for (const next of all(`:is(${home},${home} *)[name="${CSS.escape(old.name)}"]`, to)) {
			if (!isBox(old)) next.value = old.value;
			else if (next.value === old.value) next.checked = old.checked;
		}
	}
}

function place(id, html, force, insert) {
	change(id, force, () => {
		const content = fragment(html);
		const inserted = [...content.children];
		const old = byId(id);
		const focused = old?.contains(active()) && active();
		if (old && !force) carryOver(old, content);
		if (old) old.replaceWith(content);
		else insert(content);
		inserted.forEach(enhance);
		if (focused && active() === body) focusOn(byId(focused.id) ?? find('.call[data-state=waiting] [data-guard]') ?? composer());
	});
}

function placeBlock({ m, n, html }, force) {
	const id = `m${m}-${n}`;
	const into = find(`#m${m} .body`);
	if (into && !byId(id)?.dataset.settled) place(id, html, force, (content) => into.append(content));
}

const appliers = {
	put({ id, in: into, before, html }, force) {
		const parent = byId(into);
		if (!byId(id) && (!parent || parent.dataset.emptied)) return;
		place(id, html, force, (content) => parent.insertBefore(content, byId(before)));
	},
	open: placeBlock,
	settle(event, force) {
		placeBlock({ ...event, html: event.html.replace(/^\s*<[a-z]+/, '$& data-settled="yes"') }, force);
	},
	grow({ m, n, at, to, html }) {
		const block = byId(`m${m}-${n}`);
		const length = Number(block?.dataset.length ?? 0);
		if (!block || at < length) return; // repeated
		if (at > length) return stream.restart('0-0'); // a part is missing
		const content = fragment(html);
		block.dataset.length = to ?? at + content.textContent.length;
		find('tbody,code', block)?.append(content);
	},
	drop: ({ id }, force) => change(id, force, () => byId(id)?.remove()),
	/** Replaces the content of an element; a part in use is replaced later. */
	async reset({ in: id, html }) {
		const page = new DOMParser().parseFromString(policy.createHTML(html ?? await get(location.href).catch(() => '')), 'text/html');
		const element = byId(id);
		const next = html === undefined ? page.getElementById(id) : page.body;
		stream.isOld ||= page.body.dataset.build > '' && page.body.dataset.build !== body.dataset.build;
		if (!element || !next) return;
		carryOver(element, next);
		const nodes = [...next.childNodes].map((node) => document.importNode(node, true));
		const kept = [...element.children].find((child) => child.id && isInUse(child));
		const at = kept ? nodes.findIndex((node) => node.id === kept.id) : -1;
		if (at < 0) return element.replaceChildren(...nodes), enhance(element);
		for (const child of [...element.childNodes]) if (child !== kept) child.remove();
		kept.before(...nodes.slice(0, at));
		kept.after(...nodes.slice(at + 1));
		deferred.set(kept.id, () => (carryOver(kept, nodes[at]), kept.replaceWith(nodes[at]), enhance(nodes[at])));
		enhance(element);
	},
	say: ({ text, urgent }) => say(text, urgent),
	title({ text, dot }) {
		document.title = text;
		const icon = find('link[rel=icon]');
		icon.href = icon.href.replace(/icon(-dot)?\.svg/, dot ? 'icon-dot.svg' : 'icon.svg');
		byId('dot-chat').hidden = !dot;
	},
	bye: ({ after }) => stream.lose(after, 'The gateway is restarting'),
	beat() {},
};

function apply(events, force) {
	for (const event of events) {
		try {
			appliers[event.type]?.(event, force);
		} catch (error) {
			console.error(error);
		}
	}
	resized();
}

listen('focusout', () => setTimeout(applyDeferred));
listen('selectionchange', () => deferred.size && requestAnimationFrame(() => applyDeferred()));

// The stream of events: one per visible tab

const stream = {
	last: body.dataset.event ?? '', queue: [], tries: 0,
	start() {
		if (!body.dataset.topics || document.hidden || this.source) return;
		const topics = body.dataset.topics.replaceAll(' ', ',');
		const source = this.source = new EventSource(`/-/events?${new URLSearchParams({ topics, after: this.last })}`);
		source.onopen = () => {
			if (this.lostSince) say('Connected again');
			this.tries = this.lostSince = 0;
			this.resetWatchdog();
			drawConnection();
			for (const form of all('form[data-queued]')) {
				delete form.dataset.queued;
				form.requestSubmit();
			}
		};
		source.onerror = () => this.source === source && this.lose();
		listen(Object.keys(appliers).join(' '), (event) => this.source === source && this.receive(event), source);
	},
	receive({ type, data, lastEventId }) {
		this.resetWatchdog();
		this.last = lastEventId || this.last;
		const event = { ...JSON.parse(data || '{}'), type };
		receivedAt.set(event.id, now());
		this.queue.push(event);
		this.frame ||= requestAnimationFrame(() => this.flush());
	},
	flush() {
		cancelAnimationFrame(this.frame);
		this.frame = 0;
		apply(this.queue.splice(0));
		drawConnection();
	},
	/** The server sends something every 15 s. */
	resetWatchdog() {
		clearTimeout(this.watchdog);
		this.watchdog = setTimeout(() => this.restart(), 40_000);
	},
	stop() {
		this.source?.close();
		this.source = null;
		clearTimeout(this.timer);
		clearTimeout(this.watchdog);
		if (this.queue.length) this.flush();
	},
	restart(last) {
		this.stop();
		this.last = last ?? this.last;
		this.start();
	},
	lose(after = Math.min(500 * 2 ** this.tries, 5000), reason = 'Connection lost') {
		this.stop();
		this.tries += 1;
		this.lostSince ||= Date.now();
		this.reason = reason;
		this.retryAt = Date.now() + after;
		this.timer = setTimeout(() => this.start(), after);
		drawConnection();
		// Status 401: the session has ended, and not only the connection.
		if (this.tries === 3) get('/-/pulse').catch(({ status }) => status === 401 && go('/sign-in'));
	},
};

function drawConnection() {
	const bar = byId('connection');
	if (!bar) return;
	const lost = stream.lostSince && Date.now() - stream.lostSince > 900;
	if (!lost && !stream.isOld) return void (bar.hidden = true);
	const reason = lost ? stream.reason : 'The gateway has a new version';
	if (bar.hidden) {
		bar.replaceChildren(make('span', {}), make('button', { type: 'button' }));
		bar.lastChild.onclick = () => (stream.lostSince ? stream.restart() : location.reload());
		bar.hidden = false;
		say(reason);
	}
	const since = Math.round((Date.now() - stream.lostSince) / 1000);
	const next = Math.max(0, Math.ceil((stream.retryAt - Date.now()) / 1000));
	write(bar.firstChild, lost ? `${reason} ${seconds(since)} ago · ${next ? `retry in ${next} s` : 'trying'}` : reason);
	write(bar.lastChild, lost ? 'try now' : 'reload');
}

listen('visibilitychange', () => (document.hidden ? stream.stop() : stream.start()));
listen('pagehide', () => stream.stop(), window);
listen('pageshow', ({ persisted }) => persisted && stream.start(), window);
// A hidden tab has no stream; while something runs, it requests its title.
setInterval(async () => {
	if (!document.hidden || !find('.message[aria-busy=true],.call[data-state=running]')) return;
	apply(JSON.parse(await get(`/-/pulse?topics=${encodeURIComponent(body.dataset.topics)}`).catch(() => '{"events":[]}')).events);
}, 20_000);

// Live forms

async function send(url, options, form) {
	const sent = now();
	let reply;
	try {
		const response = await fetch(url, { ...options, headers: { accept: 'application/json' } });
		reply = await response.json().catch(() => (response.ok ? {} : { error: { message: `the gateway responded with status ${response.status}`, hint: 'reload the page' } }));
	} catch (error) {
		if (error.name === 'AbortError') return null;
		const isQueued = form?.id === 'composer';
		if (isQueued) form.dataset.queued = 'yes';
		reply = { error: { message: 'the gateway cannot be reached', hint: isQueued ? 'the message is sent when the connection is back' : 'try again' } };
	}
	const shown = form && find('.error', form);
	for (const field of form ? all('[aria-invalid]', form) : []) field.ariaInvalid = null;
	if (reply.error) {
		const { message, hint, field } = reply.error;
		if (shown) shown.hidden = false;
		shown?.replaceChildren(...withCode(message), hint ? make('span', { class: 'hint' }, ...withCode(hint)) : '');
		say((hint ? `${message}. ${hint}` : message).replaceAll('`', ''), true);
		const wrong = field && form && find(`[name="${CSS.escape(field)}"],[data-pointer="${CSS.escape(field)}"] .form-input *`, form);
		wrong?.setAttribute('aria-invalid', 'true');
		wrong?.focus();
	} else shown?.replaceChildren();
	if (reply.events) {
		if (form) {
			form.dataset.sent = 'yes';
			applyDeferred(form);
		}
		stream.flush();
		// Changes that the stream has sent since the request are newer.
		apply(reply.events.filter(({ id }) => !(receivedAt.get(id) > sent)), !!form);
	}
	go(reply.location);
	return reply;
}

function dataOf(form, submitter) {
	const data = new FormData(form, submitter);
	return form.enctype === 'multipart/form-data' ? data : new URLSearchParams(data);
}

async function submit(form, submitter) {
	if (form.ariaBusy) return;
	form.ariaBusy = 'true';
	const reply = await send(submitter?.hasAttribute('formaction') ? submitter.formAction : form.action, { method: 'POST', body: dataOf(form, submitter) }, form);
	form.ariaBusy = null;
	if (!reply || reply.error) return;
	if ('reset' in form.dataset && !submitter?.hasAttribute('formaction')) {
		form.reset();
		find('.attachments', form)?.replaceChildren();
		keepDraft();
	}
	showSentMessage(reply);
	// The form was replaced.
	if (active() === body && !form.isConnected) focusOn(find('.call[data-state=waiting] [data-guard]') ?? find(`[id="${form.id}"] [value="${submitter?.value}"]`) ?? composer());
}

listen('submit', (event) => {
	const form = event.target;
	if (!('live' in form.dataset) || form.method !== 'post') return;
	event.preventDefault();
	submit(form, event.submitter);
});

const ask = debounced(120, (form) => {
	form.abort?.abort();
	form.abort = new AbortController();
	const { signal } = form.abort;
	const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
	const url = `${form.getAttribute('action')}${query.size ? `?${query}` : ''}`;
	if ('url' in form.dataset) history.replaceState(history.state, '', url);
	return form.method === 'post' ? send(form.action, { method: 'POST', body: dataOf(form), signal }) : send(url, { signal });
});

// Fields

let typedAt = -Infinity;
listen('input', ({ target }) => {
	const { form } = target;
	if (isField(target)) typedAt = now();
	const field = target.closest('.form-field');
	if (field && target.closest('.states')) field.dataset.state = target.value;
	else if (field) setState(field);
	if (!form) return;
	if (form.dataset.live === 'input') ask(form);
	if ('themeForm' in form.dataset) {
		document.documentElement.dataset.theme = target.value;
		fetch(form.action, { method: 'POST', body: dataOf(form), headers: { accept: 'application/json' } });
	}
	if (target === composer()) keepDraft();
	for (const label of all('[data-changed]', form)) {
		label.dataset.same ??= label.textContent;
		label.textContent = label.dataset[[...form.elements].some(isDirty) ? 'changed' : 'same'];
	}
});

/** Marks a field with a typed value, and the objects around it, as set. */
function setState(field) {
	for (let each = field; each; each = each.parentElement.closest('.form-field')) {
		const set = find('.states input[value=set]', each);
		if (set?.closest('.form-field') !== each) continue;
		set.checked = true;
		each.dataset.state = 'set';
	}
}

const draft = `draft ${location.pathname}`;
const keepDraft = () => keep('sessionStorage', draft, composer()?.value ?? '');

// Attachments

const picker = () => find('input[type=file][data-attach]');
async function attach(files) {
	const picked = [...files]; // the list is empty after the event
	(await import('./attach.js')).attach(picked, picker().dataset);
}

let dragged;
listen('dragover drop paste', (event) => {
	const transfer = event.dataTransfer ?? event.clipboardData;
	if (!picker() || !transfer?.types.includes('Files')) return;
	event.preventDefault();
	clearTimeout(dragged);
	const isOver = event.type === 'dragover';
	body.classList.toggle('dropping', isOver);
	if (!isOver) attach(transfer.files);
	else dragged = setTimeout(() => body.classList.remove('dropping'), 300);
});
listen('change', ({ target }) => {
	if (target.id === 'letter-keys') keep('localStorage', 'letter-keys', target.checked ? 'on' : 'off');
	if (target !== picker()) return;
	attach(target.files);
	target.value = '';
});

// Clicks

async function copy(button) {
	const { copy: selector, copyText, copyFrom } = button.dataset;
	const source = selector && find(selector, button.closest('figure') ?? document);
	const text = copyFrom ? get(copyFrom) : copyText ?? source?.dataset.raw ?? source?.value ?? source?.textContent;
	let result = 'copied';
	try {
		if (!navigator.clipboard) copyWithoutApi(await text, button);
		// A promise keeps the permission of the click.
		else await navigator.clipboard.write([new ClipboardItem({ 'text/plain': Promise.resolve(text).then((value) => new Blob([value], { type: 'text/plain' })) })]);
	} catch {
		result = 'not copied';
	}
	button.dataset.done = result;
	say(result);
	setTimeout(() => delete button.dataset.done, 1500);
}

/** The clipboard API needs TLS or loopback. */
function copyWithoutApi(text, button) {
	const area = make('textarea', { class: 'unseen' });
	button.after(area);
	area.value = text;
	area.select();
	document.execCommand('copy');
	area.remove();
	button.focus();
}

function openDialog(id) {
	const dialog = byId(id);
	if (!dialog || dialog.open) return;
	for (const other of all('dialog[open]')) other.close();
	dialog.showModal();
	if (id === 'palette') palette.opened();
}

listen('click', ({ target, clientX: x, clientY: y }) => {
	if (target.matches('dialog') && (x || y)) {
		const box = boxOf(target);
		if (x < box.left || x > box.right || y < box.top || y > box.bottom) target.close();
	}
	touched.add(target.closest('summary')?.parentElement.id);
	if (target.closest('#messages summary')) following = false;
	const button = target.closest('button,a,[role=option]');
	if (!button || button.disabled) return;
	const { opens, closes, removes } = button.dataset;
	if (button.matches('[data-copy],[data-copy-text],[data-copy-from]')) copy(button);
	if (opens) openDialog(opens);
	if (closes !== undefined) (byId(closes) ?? button.closest('dialog'))?.close();
	if (removes) button.closest(removes)?.remove();
	if ('pick' in button.dataset) picker()?.click();
});

// Keys: the table in the dialog is the only list

const spelled = (key) => (/^[A-Z]$/.test(key) ? `Shift+${key.toLowerCase()}` : key);
const bindings = all('#keys tr[data-keys][data-do]').map(({ dataset }) => ({ keys: dataset.keys.split(' ').map(spelled), action: dataset.do }));
let pressed = [];
let pressedAt = 0;

/** `g`, `Shift+n`, `?`, `Ctrl+k` (⌘ counts as Ctrl), `Escape`. */
function nameOf({ key, ctrlKey, metaKey, altKey, shiftKey }) {
	const isLetter = /^\p{L}$/u.test(key);
	return `${ctrlKey || metaKey ? 'Ctrl+' : ''}${altKey ? 'Alt+' : ''}${shiftKey && (isLetter || key.length > 1) ? 'Shift+' : ''}${isLetter ? key.toLowerCase() : key}`;
}

listen('keydown', (event) => {
	if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
	const key = nameOf(event);
	const isLetter = event.key.length === 1 && !event.ctrlKey && !event.metaKey;
	const inField = isField(event.target);
	if (inField && isLetter) typedAt = now();
	if (!inField && /^(ArrowUp|PageUp|Home)$/.test(key)) stopFollowing();
	if (event.target === composer() && composerKey(key)) return event.preventDefault();
	if (key === 'Ctrl+Enter') return find('.primary:enabled:not([data-guard])', event.target.form ?? document.head)?.click();
	const isFree = key.startsWith('Ctrl+') || key === 'Escape';
	if (find('dialog[open]') ? key !== 'Ctrl+k' : inField && !isFree) return;
	if (key === 'Escape' && find(':popover-open')) return;
	if (isLetter && byId('letter-keys')?.checked === false) return;
	pressed = now() - pressedAt > 1000 ? [key] : [...pressed, key];
	pressedAt = now();
	const matches = () => bindings.filter(({ keys }) => pressed.every((each, index) => keys[index] === each));
	if (!matches().length) pressed = [key];
	if (pressed.length === 1 && pressButton(key)) {
		pressed = [];
		return event.preventDefault();
	}
	const binding = matches().find(({ keys }) => keys.length === pressed.length);
	if (!binding) return;
	pressed = [];
	if (act(binding.action)) event.preventDefault();
});

/** A key decides only if the card was visible for a moment and nothing was just typed. */
function pressButton(key) {
	const buttons = all('[data-key]').filter((button) => spelled(button.dataset.key) === key && isUsable(button));
	const button = buttons.find((each) => each.closest('.call,.message')?.contains(active())) ?? buttons[0];
	if (!button) return false;
	if ('guard' in button.dataset && !(now() - seenAt.get(button) >= 400 && now() - typedAt >= 300)) {
		const card = button.closest('.call') ?? button;
		card.scrollIntoView({ block: 'center' });
		card.classList.remove('flash');
		requestAnimationFrame(() => card.classList.add('flash'));
	} else button.click();
	return true;
}

function composerKey(key) {
	const field = composer();
	if (key === 'Enter' && !matchMedia('(pointer: coarse)').matches) {
		if (field.value.trim() || find('#attachments [name]')) field.form.requestSubmit();
		return true;
	}
	if (field.value) return false;
	if (key === 'Backspace') find('#attachments>:last-child')?.remove();
	const edit = key === 'ArrowUp' && all('.message.you [data-edit]').at(-1);
	if (edit) edit.click();
	return !!edit;
}

/** Runs the action of a key. Returns whether it was possible. */
function act(action) {
	const [, verb, rest] = /^(\w+):?(.*)$/.exec(action);
	if (verb === 'go') return go(rest), true;
	if (verb === 'open') return openDialog(rest), true;
	if (verb === 'end') return toEnd(), true;
	if (verb === 'fold') return fold(rest);
	if (verb === 'next' || verb === 'prev') return step(rest, verb === 'next' ? 1 : -1);
	const target = all(rest).find(isUsable);
	target?.[verb === 'focus' ? 'focus' : 'click']();
	return !!target;
}

/** Moves on from the focused element, the current one, or the first in view. */
function step(selector, by) {
	const elements = all(selector).filter((element) => element.checkVisibility());
	let at = elements.findIndex((element) => element.contains(active()));
	if (at < 0) at = elements.findIndex((element) => element.ariaCurrent);
	if (at < 0) at = elements.findIndex((element) => boxOf(element).bottom > 60) - (by > 0 ? 1 : 0);
	const next = elements[at + by];
	if (!next) return false;
	following = false;
	if (next.tabIndex < 0) next.tabIndex = -1;
	next.scrollIntoView({ block: 'nearest' });
	focusOn(next);
	if (next.matches('a.item')) next.click();
	return true;
}

function fold(selector) {
	const card = active().closest(selector) ?? all(selector, active()).at(-1);
	if (card) find('summary', card)?.click();
	return !!card;
}

// The palette

const palette = {
	dialog: byId('palette'), input: find('#palette [name=q]'), list: byId('palette-entries'), entries: [], at: 0,
	opened() {
		this.input.value = '';
		this.ask();
	},
	async ask() {
		const query = this.input.value;
		const reply = JSON.parse(await get(`/-/palette.json?q=${encodeURIComponent(query)}`).catch(() => '{}'));
		if (query !== this.input.value) return;
		this.shown = query;
		this.entries = reply.entries ?? all('.rail-link').map((link) => ({ label: link.textContent.trim(), kind: 'view', href: link.getAttribute('href') }));
		this.list.replaceChildren(...this.entries.map(({ label, kind, detail }, index) => make('li', { role: 'option', id: `palette-${index}` }, make('span', { class: 'cut', dir: 'auto' }, label), make('span', { dir: 'auto' }, detail ?? kind ?? ''))));
		this.mark(0);
		say(`${this.entries.length} ${this.entries.length === 1 ? 'entry' : 'entries'}`);
	},
	mark(at) {
		const options = [...this.list.children];
		this.at = Math.max(0, Math.min(at, options.length - 1));
		const option = options[this.at];
		for (const each of options) each.ariaSelected = String(each === option);
		option?.scrollIntoView({ block: 'nearest' });
		this.input.setAttribute('aria-activedescendant', option?.id ?? '');
	},
	async run(index) {
		// Enter may be faster than the entries.
		if (index < 0 && this.shown !== this.input.value) await this.ask();
		const { href, click } = this.entries[index < 0 ? this.at : index] ?? {};
		this.dialog.close();
		if (!go(href) && click) find(click)?.click();
	},
};
if (palette.dialog) {
	const again = debounced(60, () => palette.ask());
	const option = ({ target }) => [...palette.list.children].indexOf(target.closest('li'));
	listen('input', (event) => (event.stopPropagation(), again()), palette.dialog);
	listen('submit', (event) => (event.preventDefault(), palette.run(-1)), palette.dialog);
	listen('click', (event) => option(event) >= 0 && palette.run(option(event)), palette.dialog);
	listen('keydown', (event) => {
		const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
		if (!by || event.isComposing) return;
		event.preventDefault();
		palette.mark(palette.at + by);
	}, palette.dialog);
}

// Times: ISO from the server

const FORMATS = {
	time: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' }),
	date: new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' }),
	full: new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' }),
};
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

function ago(minutes) {
	const [unit, length] = minutes < 60 ? ['minute', 1] : minutes < 1440 ? ['hour', 60] : ['day', 1440];
	return minutes < 1 ? 'just now' : AGO.format(-Math.floor(minutes / length), unit);
}

function drawTime(element) {
	const time = Date.parse(element.dateTime);
	const { format } = element.dataset;
	if (Number.isNaN(time)) return;
	write(element, format === 'ago' ? ago((Date.now() - time) / 60_000) : (FORMATS[format] ?? FORMATS.full).format(time));
	element.title = FORMATS.full.format(time);
}

function drawTimer(element) {
	const { since, wait } = element.dataset;
	const past = (Date.now() - Date.parse(since)) / 1000;
	const text = seconds(Math.max(0, Math.floor(past)));
	write(element, wait === undefined ? text : past < 0.4 ? '' : `waiting for ${wait} · ${text}`);
}

setInterval(() => {
	if (document.hidden) return;
	all('[data-since]').forEach(drawTimer);
	all('time[data-format=ago]').forEach(drawTime);
	drawConnection();
}, 1000);

// Sections of long conversations

const MAX_FILLED = 8;
const near = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => isIntersecting && !target.firstElementChild && fill(target)), { rootMargin: '1500px 0px' });

async function fill(section) {
	if (section.ariaBusy || !isOwnPath(section.dataset.src)) return;
	section.ariaBusy = 'true';
	const html = await get(section.dataset.src).catch(() => null);
	section.ariaBusy = null;
	if (html === null) return;
	section.replaceChildren(fragment(html));
	section.style.minHeight = '';
	delete section.dataset.emptied;
	enhance(section);
	emptyFarthest(section);
}

function emptyFarthest(kept) {
	const distance = (section) => {
		const { top, bottom } = boxOf(section);
		return Math.max(top - innerHeight, -bottom, 0);
	};
	const filled = all('.window[data-src]').filter((section) => section.firstElementChild);
	const isSpare = (section) => section !== kept && distance(section) > 0 && !isInUse(section) && !find('[aria-busy=true],[data-state=waiting]', section) && !all('input,textarea,select', section).some(isDirty);
	const spare = filled.filter(isSpare).sort((one, other) => distance(other) - distance(one));
	for (const section of spare.slice(0, Math.max(0, filled.length - MAX_FILLED))) {
		section.style.minHeight = `${section.offsetHeight}px`;
		section.dataset.emptied = 'yes';
		section.replaceChildren();
	}
}

/** `#m42`: fills the section of message 42 if it is empty, and goes there. */
async function goToHash() {
	const position = Number(/^#m(\d+)/.exec(location.hash)?.[1]);
	const section = all('.window').find(({ dataset }) => dataset.from <= position && position <= dataset.to);
	if (!section) return;
	following = false;
	if (!section.firstElementChild) await fill(section);
	// A message that has only results belongs to the one before it.
	(byId(`m${position}`) ?? all('.message', section).findLast(({ id }) => id.slice(1) < position) ?? section).scrollIntoView();
}

// Scrolling

let following = false;
let lastTop = scrollY;

/** The pixels below the view or behind the composer. */
function below() {
	const last = byId('ending')?.lastElementChild ?? byId('messages')?.lastElementChild;
	if (!last) return 0;
	const box = byId('composer');
	return boxOf(last).bottom - (box?.checkVisibility() ? boxOf(box).top : innerHeight - 60);
}

function toEnd() {
	following = true;
	resized();
}

listen('scroll', () => {
	if (scrollY < lastTop - 1) following = false;
	else if (scrollY > lastTop && below() <= 48) following = true;
	lastTop = scrollY;
	updateJump();
}, window);
listen('wheel', ({ deltaY }) => deltaY < 0 && stopFollowing(), window);

/** Before the view moves: a growing answer would move it back. */
const stopFollowing = () => { following &&= scrollY <= 0; };

/** The messages, the composer or the window changed their height. */
function resized() {
	if (following && below() > 0) scrollBy(0, below() + 8);
	if (following) lastTop = scrollY;
	updateJump();
}
const sizes = new ResizeObserver(resized);
listen('resize', resized, window);

const jump = make('button', { id: 'jump', type: 'button', class: 'button', hidden: '' });
jump.onclick = toEnd;
function updateJump() {
	const lines = Math.round(below() / 24);
	jump.hidden = following || lines < 3;
	if (jump.hidden) return;
	// Above the composer, which is hidden on phones while a call waits.
	const box = byId('composer');
	jump.style.bottom = box?.checkVisibility() ? `${innerHeight - boxOf(box).top + 4}px` : '';
	write(jump, `↓ ${lines} lines${find('#messages .call[data-state=waiting]') ? ' · waits for you' : ''}`);
}

/** Scrolls a sent message to the top, with space for the response. */
function showSentMessage({ events }) {
	const sent = all('#messages .message.you').at(-1);
	if (!sent || !events?.some(({ id }) => byId(id)?.contains(sent))) return;
	const top = boxOf(sent).top - boxOf(byId('main')).top;
	byId('main').style.minHeight = `${Math.ceil(top + innerHeight - 54)}px`;
	sent.scrollIntoView();
	lastTop = scrollY;
	following = true;
}

const seenAt = new WeakMap();
const seen = new IntersectionObserver((entries) => {
	for (const { target, isIntersecting } of entries) {
		if (!isIntersecting) seenAt.delete(target);
		else if (!seenAt.has(target)) seenAt.set(target, now());
	}
}, { rootMargin: '-48px 0px 0px', threshold: 0.9 });

/** Sets up new HTML that needs more than listeners at the document. */
function enhance(root) {
	const each = (selector, action) => [...(root.matches?.(selector) ? [root] : []), ...all(selector, root)].forEach((element) => action(element));
	each('time[datetime]', drawTime);
	each('[data-since]', drawTimer);
	each('[data-guard]', (button) => seen.observe(button));
	each('#messages,#composer', (element) => sizes.observe(element));
	each('.window[data-src]', (section) => {
		if (!section.firstElementChild) section.style.minHeight = `${section.dataset.height ?? 4000}px`;
		near.observe(section);
	});
}

enhance(document);
if (byId('messages')) body.append(jump);
if (composer()) composer().value ||= keep('sessionStorage', draft) ?? '';
if (byId('letter-keys')) byId('letter-keys').checked = keep('localStorage', 'letter-keys') !== 'off';
listen('hashchange', goToHash, window);
if (!location.hash && performance.getEntriesByType('navigation')[0]?.type === 'navigate') toEnd();
goToHash();
stream.start();

// A link that `toolwire serve` prints: the token is in the fragment, which browsers do not send.
const token = /^#token=(.+)/.exec(location.hash)?.[1];
const signIn = byId('sign-in');
if (token && signIn) {
	history.replaceState(null, '', location.pathname + location.search);
	signIn.elements.key.value = decodeURIComponent(token);
	signIn.requestSubmit();
}

export { apply, byId, make, say };
