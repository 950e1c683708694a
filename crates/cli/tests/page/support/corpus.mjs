// More texts that must never run, load anything, or hide other text, for places that take any text.
import { HOSTILE } from './hostile.mjs';

export const CORPUS = [
  ...HOSTILE,
  'javascript:alert(1)',
  'JaVaScRiPt:alert(1)//',
  'java\tscript:alert(1)',
  'java\nscript:alert(1)',
  '&#106;avascript:alert(1)',
  '%6aavascript:alert(1)',
  '\u0001javascript:alert(1)',
  'vbscript:msgbox(1)',
  'data:text/html,<script>alert(1)</script>',
  'blob:https://example.com/1',
  'file:///etc/passwd',
  '//example.com/x',
  '/\\example.com/x',
  'https://example.com/"onmouseover="alert(1)',
  '</script><script>alert(1)</script><!--',
  '</title><svg/onload=alert(1)>',
  '<a id=main name=main href=//example.com>x</a><a id=sign-in>',
  '<img name=body><input name=attributes>',
  'prototype',
  'toString',
  '\u{e0001}\u{e0041}tag characters',
  '\u0000NUL\u0007',
  '\u2028\u2029line',
  '[\u202e](https://example.com/)',
];

/** Texts that are only large. */
export const LARGE = {
  word: 'a'.repeat(1_000_000),
  lists: '- '.repeat(10_000),
  quotes: '> '.repeat(10_000),
};
