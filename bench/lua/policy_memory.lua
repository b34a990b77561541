-- The Lua memory of a worker that policies take: after they came into force, and after each was met by requests. Tables are walked to
-- tell what takes it.

local bundle = require("bundle")
local cjson = require("cjson.safe")
local ffi = require("ffi")

local _M = {}

local module

function _M.start(_, directory)
  module = bundle.open(directory)
  module("gateway.src.stores.node.node-counters").openNodeStore(1, 1)
end

-- The head of a table in LuaJIT with 64-bit references, up to the sizes of its two parts.
ffi.cdef([[typedef struct { uint64_t next; uint8_t bits[8]; uint64_t array, gclist, metatable, node; uint32_t asize, hmask; } bench_table;]])
local head_bytes, slot_bytes, node_bytes, string_bytes = 64, 8, 24, 25
assert(ffi.abi("gc64"), "the layout of tables is only known with 64-bit references")

local function bytes_of(table)
  local head = ffi.cast("bench_table *", tonumber(string.format("%p", table):sub(3), 16))
  local nodes = head.hmask == 0 and 0 or (head.hmask + 1) * node_bytes
  return head_bytes + head.asize * slot_bytes + nodes
end

-- Adds up the tables and texts that can be reached, and that were not reached before.
local function reach(value, reached)
  if reached[value] then return 0 end
  local kind = type(value)
  if kind == "string" then
    reached[value] = true
    return string_bytes + #value
  end
  if kind ~= "table" then return 0 end
  reached[value] = true
  local bytes = bytes_of(value)
  for name, entry in pairs(value) do bytes = bytes + reach(name, reached) + reach(entry, reached) end
  return bytes
end

local function in_use()
  for _ = 1, 3 do collectgarbage("collect") end
  return collectgarbage("count") * 1024
end

local function policies_from(file)
  local entries = {}
  for line in io.lines(file) do
    local entry = cjson.decode(line)
    local validation = module("limiter.src.document.validate").validatePolicy(entry.document)
    assert(validation.policy, "a policy is not valid: " .. cjson.encode(validation.problems))
    entries[#entries + 1] = { app = entry.app, policy = validation.policy }
  end
  return entries
end

local function put(state, file)
  local changes = module("limiter.src.state.change")
  local findings = module("limiter.src.document.problems").noFindings()
  local change = changes.newChange({ epoch = "bench", revision = 1 })
  change.policies = policies_from(file)
  local prepared = changes.prepareChange(state, change, findings, function() end)
  assert(#findings.problems == 0, "the change is not valid")
  changes.commitChange(state, prepared)
end

-- Has each policy met by a request to each of its paths.
local function ask(state, file)
  local candidates = module("limiter.src.index.policy-index").candidates
  local decide = module("gateway.src.stores.node.node-counters").decideOnNode
  local count = module("gateway.src.metrics.counts").countDecision
  for line in io.lines(file) do
    for _, asked in ipairs(cjson.decode(line).asks) do
      for _, policy in ipairs(candidates(state.index, asked.host, asked.path)) do
        decide(policy, policy.limits, "192.0.2.1", nil, nil)
        count(policy, "allowed", "192.0.2.1")
      end
    end
  end
end

local function each_policy(state, visit)
  for _, of_app in pairs(state.policiesByName) do
    for _, policy in pairs(of_app) do visit(policy) end
  end
end

local function answer(directory)
  local state = module("limiter.src.state.policy-state").emptyState()
  local file = directory .. "/policies.jsonl"
  local count = 0
  for _ in io.lines(file) do count = count + 1 end
  -- What the code itself keeps the first time is not the policies'.
  local warm = module("limiter.src.state.policy-state").emptyState()
  put(warm, directory .. "/warm.jsonl")
  ask(warm, directory .. "/warm.jsonl")
  warm = nil

  local before = in_use()
  put(state, file)
  local in_force = in_use()
  ask(state, file)
  local asked = in_use()

  local reached, parts = {}, {}
  local function part(name, bytes) parts[name] = (parts[name] or 0) + bytes / count end
  -- What is counted of its decisions is kept beside the policy, although the record leads there.
  each_policy(state, function(policy) reach(policy.counts, reached) end)
  each_policy(state, function(policy) part("policy", reach(policy.policy, reached)) end)
  each_policy(state, function(policy) part("limits", reach(policy.limits, reached)) end)
  each_policy(state, function(policy) part("record", reach(policy, reached)) end)
  part("index", reach(state.index, reached))
  part("names", reach(state.policiesByName, reached))
  parts.inForce, parts.asked = (in_force - before) / count, (asked - before) / count
  local known = 0
  for _, name in ipairs({ "policy", "limits", "record", "index", "names" }) do known = known + parts[name] end
  parts.beside = parts.asked - known
  return cjson.encode(parts)
end

function _M.answer(directory)
  if ngx.var.arg_mode == "ready" then return end
  ngx.say(answer(directory))
end

return _M
