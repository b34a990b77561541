// While the passes run, every local has a unique name (`rest@17`), so that no pass has to consider scopes. The printed script
// has the plain name, with a number where it would shadow another (`rest_2`).

import * as lua from "typescript-to-lua";
import { rewriteBlock } from "./walk.ts";

export class Names {
  #given = 0;

  /** Returns a name for a new local. @param base its name in the printed script */
  fresh(base: string): string {
    return `${plainName(base)}@${++this.#given}`;
  }
}

export const isLocal = (name: string) => name.includes("@");

/** Returns the name without the part that makes it unique, and without the marks of TypeScriptToLua's own names. */
export function plainName(name: string): string {
  const plain = name.replace(/@.*$/, "");
  if (/^__continue\d+$/.test(plain)) return "continues";
  return plain.startsWith("____") ? plain.slice(4).replace(/_\d+$/, "") || "_" : plain;
}

const keywords =
  "and break do else elseif end false for function if in local nil not or repeat return then true until while goto";

/** Gives every local its plain name, or a numbered one where that is taken by a global or an outer local. */
export function nameReadably(statements: readonly lua.Statement[]): lua.Statement[] {
  const taken = new Set(keywords.split(" "));
  rewriteBlock(statements, {
    expression: (part) => {
      if (lua.isIdentifier(part) && !isLocal(part.text)) taken.add(part.text);
      return part;
    },
  });
  const chosen = new Map<string, string>();
  const choose = (name: string, visible: Set<string>) => {
    const base = plainName(name);
    let readable = base;
    for (let n = 2; taken.has(readable) || visible.has(readable); n++) readable = `${base}_${n}`;
    visible.add(readable);
    chosen.set(name, readable);
  };
  const visit = (block: readonly lua.Statement[], outer: ReadonlySet<string>, declared: readonly string[] = []) => {
    const visible = new Set(outer);
    for (const name of declared) choose(name, visible);
    for (const statement of block) {
      if (lua.isVariableDeclarationStatement(statement)) {
        for (const { text } of statement.left) choose(text, visible);
      } else if (lua.isDoStatement(statement)) {
        visit(statement.statements, visible);
      } else if (lua.isIfStatement(statement)) {
        visit(statement.ifBlock.statements, visible);
        const { elseBlock } = statement;
        if (elseBlock) visit(lua.isIfStatement(elseBlock) ? [elseBlock] : elseBlock.statements, visible);
      } else if (lua.isForStatement(statement)) {
        visit(statement.body.statements, visible, [statement.controlVariable.text]);
      } else if (lua.isForInStatement(statement)) {
        visit(
          statement.body.statements,
          visible,
          statement.names.map(({ text }) => text),
        );
      } else if (lua.isWhileStatement(statement) || lua.isRepeatStatement(statement)) {
        visit(statement.body.statements, visible);
      }
    }
  };
  visit(statements, new Set());
  const rename = (variable: lua.Identifier) => lua.createIdentifier(chosen.get(variable.text) ?? variable.text);
  return rewriteBlock(statements, {
    expression: (part) => (lua.isIdentifier(part) ? rename(part) : part),
    target: rename,
  });
}
