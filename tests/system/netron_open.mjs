// SPDX-License-Identifier: Apache-2.0
// Opens a model with Netron's own parsers, without a browser, and prints what they found as JSON.
// Arguments: the folder of Netron's sources, the file.
const [folder, file] = process.argv.slice(2);
const path = await import('node:path');
const fs = await import('node:fs/promises');
const load = (name) => import(path.join(folder, `${name}.js`));
const [base, view] = [await load('base'), await load('view')];

const failed = (error) => {
    throw error;
};
const host = {
    require: (id) => load(id),
    environment: () => null,
    event: () => {},
    exception: failed
};
const context = {
    identifier: path.basename(file),
    stream: new base.BinaryStream(await fs.readFile(file)),
    entries: new Map(),
    require: (id) => load(id),
    asset: (id) => fs.readFile(path.join(folder, id), 'utf-8'),
    error: failed
};

const model = await new view.ModelFactoryService(host).open(context);
const value = (entry) => ({
    name: entry.name,
    type: entry.type ? entry.type.toString() : null,
    bytes: entry.initializer ? entry.initializer.values.length : null
});
const argument = (entry) => ({ name: entry.name, values: entry.value.map(value) });
const plain = (_, entry) => typeof entry === 'bigint' ? entry.toString() : entry;
console.log(JSON.stringify({
    format: model.format,
    producer: model.producer,
    graphs: model.modules.map((graph) => ({
        inputs: graph.inputs.map(argument),
        nodes: graph.nodes.map((node) => ({
            name: node.name,
            type: node.type.name,
            device: node.device || null,
            inputs: node.inputs.map(argument),
            attributes: node.attributes.map((entry) => ({ name: entry.name, type: entry.type }))
        }))
    }))
}, plain));
