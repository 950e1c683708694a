// What no text from outside may add to a page.
import { expect } from './test.mjs';

/** Nothing in a document runs, loads something of another origin, sends something there, or is hidden. */
export async function expectHarmless(page, what) {
  expect(await page.evaluate(harm, null), what).toEqual([]);
}

/** The same for the HTML of a response that is not opened. */
export async function expectHarmlessHtml(page, html, what) {
  expect(await page.evaluate(harm, html), what).toEqual([]);
}

function harm(html) {
  const parsed = html === null ? document : globalThis.parse(html);
  const found = [];
  const add = (element, why) => found.push(`${why}: ${element.outerHTML.slice(0, 200)}`);
  const own = (address) => /^(\/(?![/\\])|#|\?|$)/.test(address) || (parsed === document && address.startsWith(`${location.origin}/`));
  for (const element of parsed.querySelectorAll('*')) {
    if (element.matches('iframe,object,embed,base,applet,frame,math,template,foreignObject,link:not([rel~=stylesheet],[rel=icon])')) add(element, 'element');
    if (element.matches('script') && !(element.type === 'module' && own(element.getAttribute('src') ?? 'x') && !element.textContent)) add(element, 'script');
    if (element.matches('meta[http-equiv]') && !element.closest('noscript')) add(element, 'meta');
    for (const { name, value } of element.attributes) {
      const address = value.trim();
      if (/^on/i.test(name)) add(element, 'handler');
      if (name === 'style' && parsed !== document) add(element, 'style');
      if (['src', 'action', 'formaction', 'poster', 'data', 'srcset', 'ping', 'background'].includes(name) && !own(address)) add(element, name);
      if (name.endsWith('href') && !own(address) && !/^(https?:\/\/|mailto:)/i.test(address)) add(element, name);
      if (name === 'href' && !own(address) && element.matches('link,use,image')) add(element, name);
    }
  }
  const ids = [...parsed.querySelectorAll('[id]')].map(({ id }) => id);
  found.push(...ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `id twice: ${id}`));
  const hidden = /[\u202a-\u202e\u2066-\u2069\u200b\u2028\u2029\u0000\u0007\u001b\u0001]|\udb40/;
  const walker = parsed.createTreeWalker(parsed.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (hidden.test(node.data) && !node.parentElement.closest('textarea,script')) add(node.parentElement, 'hidden character');
  }
  return [...new Set(found)].slice(0, 10);
}

/** Lets `expectHarmlessHtml` parse HTML in the page, which its policy allows only to itself. */
export async function allowParsing(page) {
  await page.evaluate(() => { globalThis.parse = (html) => new DOMParser().parseFromString(html, 'text/html'); });
}
