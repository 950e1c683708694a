// A stored conversation with many messages: texts, lists, code, calls with results.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

export const LONG_CHAT = '0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83';

const WORDS = 'the invoice of the second quarter lists nine items and two of them were paid before the reminder arrived'.split(' ');
const text = (value) => ({ type: 'text', text: value });
const sentence = (number, length) => Array.from({ length }, (_, index) => WORDS[(number * 7 + index) % WORDS.length]).join(' ');
const code = (number) => `\n\n\`\`\`js\nconst total = items.filter((item) => item.year === ${number});\nconsole.log(total.length);\n\`\`\``;
const list = (number) => `\n\n- ${sentence(number, 6)}\n- ${sentence(number + 1, 9)}\n- **${sentence(number + 2, 3)}**`;

/** Each tenth message is a call, and the one after it its result. Messages 1,234 and 5,678, and the result 4,322, contain `wombat`. */
function message(number) {
  const rare = [1234, 4322, 5678].includes(number) ? ' wombat' : '';
  if (number % 20 === 1 && number > 1) return { role: 'assistant', content: [{ type: 'tool_use', id: `c${number}`, name: 'table', input: { page: number } }] };
  if (number % 20 === 2 && number > 2) return { role: 'user', content: [{ type: 'tool_result', toolUseId: `c${number - 1}`, content: [text(`row ${number}${rare}`)] }] };
  if (number % 2 === 1 && number % 20 !== 3) return { role: 'user', content: [text(sentence(number, 12) + rare)] };
  return { role: 'assistant', content: [text(`${sentence(number, 40)}${rare}.${number % 4 ? list(number) : code(number)}`)] };
}

/** Stores the conversation where the gateway finds it. */
export async function importLongChat(gateway, messages) {
  const start = Date.UTC(2026, 0, 1);
  const entries = Array.from({ length: messages }, (_, index) => ({ sequence: index + 1, time: start + index * 1000, message: message(index + 1) }));
  const conversation = { id: LONG_CHAT, title: 'A long chat', created: start, changed: start + messages * 1000 };
  const file = path.join(gateway.folder, 'long-chat.json');
  await writeFile(file, JSON.stringify({ format: 'toolwire-conversation', version: 1, conversation, entries }));
  await gateway.run(['conversations', 'import', file]);
}

/** Scrolls through all sections, from the end to the start, and returns the largest number that were filled at a time. */
export async function scrollThrough(page, { from = Infinity, to = 0 } = {}) {
  return page.evaluate(async ({ from, to }) => {
    const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });
    const sections = [...document.querySelectorAll('.window')].slice(to, from);
    let most = 0;
    for (const section of sections.reverse()) {
      section.scrollIntoView({ block: 'center' });
      while (!section.firstElementChild) await frame();
      await frame();
      most = Math.max(most, document.querySelectorAll('.window:has(.message)').length);
    }
    return most;
  }, { from: Number.isFinite(from) ? from : undefined, to });
}

/** The used bytes of the JavaScript heap and the number of nodes, without what can be collected. */
export async function memory(client) {
  for (let round = 0; round < 3; round += 1) await client.send('HeapProfiler.collectGarbage');
  const { usedSize } = await client.send('Runtime.getHeapUsage');
  const { nodes } = await client.send('Memory.getDOMCounters');
  return { usedSize, nodes };
}
