// A pretend answerer: lets `ls` through, denies what smells of production, and leaves the rest to a person.
// Node 22 or newer, nothing else: node examples/answerer.mjs [ws://127.0.0.1:49134]

const engine = new WebSocket(process.argv[2] ?? "ws://127.0.0.1:49134");
const send = (frame) => engine.send(JSON.stringify(frame));

function decide({ record }) {
  const command = String(record.arguments_excerpt?.command ?? "");
  if (/prod/.test(command)) return { decision: "deny", reason: "production is frozen until Monday" };
  return { decision: /^ls( -[a-z]+)?$/.test(command) ? "allow" : "pass" };
}

engine.onopen = () => {
  send({ type: "registerfunction", id: "mine::judge", description: "answers in a person's place" });
  send({ type: "registertrigger", id: "mine/judge", trigger_type: "approval::answerer",
         function_id: "mine::judge", config: { functions: ["shell::*"] } });
  send({ type: "invokefunction", invocation_id: crypto.randomUUID(),
         function_id: "engine::workers::register", data: { name: "mine", runtime: "node" } });
};

engine.onmessage = ({ data }) => {
  const frame = JSON.parse(data);
  if (frame.type !== "invokefunction") return;
  const { invocation_id, function_id } = frame;
  send({ type: "invocationresult", invocation_id, function_id, result: decide(frame.data) });
};

engine.onclose = () => process.exit(1);
