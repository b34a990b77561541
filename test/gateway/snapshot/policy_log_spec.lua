-- gateway/src/snapshot/policy-log.ts: what is left of a log that was cut or damaged anywhere.

local nginx = require("test.gateway.virtual.nginx")

local entries = {
  { name = "a:shop", text = '{"app":"shop","realm":{"paths":["/"]}}' },
  { name = "p:shop:books", text = '{"app":"shop","document":{"name":"books","note":"+x = y - z"}}' },
  { name = "b:0197", text = '{"id":"0197","app":"shop","cidr":"192.0.2.0/24","untilSeconds":4000000000}' },
}

local function position(revision)
  return { epoch = "e-1", revision = revision, edition = "1 2026a 2026", proof = "0f" }
end

local function blockText(policyLog, set, gone, ofPosition, after)
  local place, text = 0, ""
  for piece in
    policyLog.blockPieces(function()
      place = place + 1
      return set[place]
    end, ofPosition, gone, after)
  do
    text = text .. piece
  end
  return text
end

-- The states of a log after each block, by name, and the text of the log.
local function logOf(policyLog)
  local blocks = {
    { set = entries, gone = {} },
    { set = { { name = "p:shop:books", text = '{"app":"shop","document":{"name":"books","note":"new"}}' } }, gone = {} },
    { set = {}, gone = { "b:0197" } },
    { set = {}, gone = {} },
    { set = { { name = "p:shop:books", text = "{}" }, { name = "z:UTC", text = "[[0,0]]" } }, gone = { "p:shop:books", "a:shop" } },
  }
  local text, ends, states, held = "", {}, {}, {}
  for revision, block in ipairs(blocks) do
    text = text .. blockText(policyLog, block.set, block.gone, position(revision), revision > 1 and position(revision - 1) or nil)
    for _, name in ipairs(block.gone) do
      held[name] = nil
    end
    for _, entry in ipairs(block.set) do
      held[entry.name] = entry.text
    end
    local copy = {}
    for name, entry in pairs(held) do
      copy[name] = entry
    end
    ends[revision] = #text
    states[revision] = copy
  end
  return text, ends, states
end

local function byName(list)
  local found = {}
  for _, entry in ipairs(list) do
    found[entry.name] = entry.text
  end
  return found
end

local function noPause() end

describe("the log of policies", function()
  local policyLog, text, ends, states
  setup(function()
    local world = nginx.world({ seed = 1, workers = 1, redis = false, policies = {} })
    policyLog = world.workers[1].module("gateway.src.snapshot.policy-log")
    text, ends, states = logOf(policyLog)
  end)

  -- The last block that ends at or before a place.
  local function blocksUntil(bytes)
    local blocks = 0
    while ends[blocks + 1] and ends[blocks + 1] <= bytes do
      blocks = blocks + 1
    end
    return blocks
  end

  local function assertHas(read, blocks, where)
    if blocks == 0 then
      assert.is_nil(read, where)
      return
    end
    assert.equal(blocks, read.position.revision, where)
    assert.same(states[blocks], byName(read.entries), where)
    assert.equal(ends[blocks], read.bytes, where)
    assert.equal(ends[1], read.firstBytes, where)
  end

  it("has after a cut at any byte what its whole blocks say", function()
    for bytes = 0, #text do
      assertHas(policyLog.readLog(text:sub(1, bytes), noPause), blocksUntil(bytes), "cut after byte " .. bytes)
    end
  end)

  it("has what comes before any damaged byte", function()
    for byte = 1, #text do
      local other = text:sub(byte, byte) == "#" and "%" or "#"
      local damaged = text:sub(1, byte - 1) .. other .. text:sub(byte + 1)
      assertHas(policyLog.readLog(damaged, noPause), blocksUntil(byte - 1), "byte " .. byte)
    end
  end)

  it("ignores what is not a block after the last one", function()
    for _, rest in ipairs({ "=", "\n", "=\n", "={}\n", "+p:x:y {}", ("0"):rep(200) .. "\n", "\n=" .. ("0"):rep(70) .. "\n" }) do
      assertHas(policyLog.readLog(text .. rest, noPause), #ends, rest)
    end
  end)

  it("reads a first block that was written piece by piece", function()
    local many = {}
    for i = 1, 3000 do
      many[i] = { name = "p:shop:p" .. i, text = '{"app":"shop","document":{"name":"p' .. i .. '","x":"' .. ("y"):rep(i % 90) .. '"}}' }
    end
    local place = 0
    local nextPiece = policyLog.blockPieces(function()
      place = place + 1
      return many[place]
    end, position(9))
    local pieces = {}
    for piece in nextPiece do
      pieces[#pieces + 1] = piece
    end
    assert.is_true(#pieces > 2)
    local read = policyLog.readLog(table.concat(pieces), noPause)
    assert.equal(9, read.position.revision)
    assert.same(byName(many), byName(read.entries))
  end)

  it("ends before a block of another gateway, which changes another state", function()
    local other = blockText(policyLog, { { name = "p:shop:books", text = "[]" } }, {}, position(8), position(7))
    assertHas(policyLog.readLog(text .. other, noPause), #ends, "another state")
  end)

  it("has blocks of an earlier version of the gateway, which do not say what they change", function()
    local earlier = blockText(policyLog, { { name = "p:shop:books", text = "[]" } }, {}, position(6))
    local read = policyLog.readLog(text .. earlier, noPause)
    assert.equal(6, read.position.revision)
    assert.is_nil(read.position.after)
    assert.equal("[]", byName(read.entries)["p:shop:books"])
  end)
end)
