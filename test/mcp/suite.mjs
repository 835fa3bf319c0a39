// Runs the conformance suite of the Model Context Protocol: its servers listen on loopback only, and it needs no Node.js 22.
import { register } from 'node:module'
import net from 'node:net'

// The suite asks for the port at once, which listen does not allow with an address.
const listen = net.Server.prototype._listen2
net.Server.prototype._listen2 = function (address, port, family, ...rest) {
  return address ? listen.call(this, address, port, family, ...rest) : listen.call(this, '127.0.0.1', port, 4, ...rest)
}

// The suite imports fs.globSync for another command.
const fs = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => []"
const hooks = `export const resolve = (name, context, next) => name === 'fs'
  ? { url: 'data:text/javascript,' + ${JSON.stringify(encodeURIComponent(fs))}, shortCircuit: true } : next(name, context)`
register('data:text/javascript,' + encodeURIComponent(hooks))
await import('./node_modules/@modelcontextprotocol/conformance/dist/index.js')
