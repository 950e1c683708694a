// Attachments: files that are picked, pasted or dropped are uploaded at once. Loaded with the first file.
import { apply, byId, make, say } from './page.js';

const size = (bytes) => (bytes < 1e3 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1e3)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);

export function attach(files, { attach: url, limit = Infinity }) {
	for (const file of files) {
		const bar = make('progress', { max: 1, value: 0, 'aria-label': 'uploading' });
		const text = make('span', { class: 'muted' }, size(file.size));
		const chip = make('span', { class: 'chip' }, make('span', { class: 'cut', dir: 'auto' }, file.name), text, bar,
			make('button', { type: 'button', class: 'button quiet', 'data-removes': '.chip', 'aria-label': `remove ${file.name}` }, '✗'));
		byId('attachments').append(chip);
		const fail = (reason) => {
			bar.remove();
			text.textContent = reason;
			say(`${file.name}: ${reason}`, true);
		};
		if (file.size > limit) {
			fail(`${size(file.size)} is more than ${size(Number(limit))}`);
			continue;
		}
		const request = new XMLHttpRequest(); // `fetch` reports no progress of uploads
		request.open('POST', url);
		request.setRequestHeader('accept', 'application/json');
		request.responseType = 'json';
		request.upload.onprogress = ({ loaded, total }) => { bar.value = loaded / total; };
		request.onloadend = () => {
			if (!request.response?.events) return fail(request.response?.error?.message ?? 'not uploaded');
			if (!chip.isConnected) return;
			chip.remove();
			apply(request.response.events, true);
		};
		const data = new FormData();
		data.append('file', file, file.name);
		request.send(data);
	}
}
