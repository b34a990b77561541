-- gateway/src/snapshot/publication.ts and distribution.ts: all workers decide by the same policies, and nothing is lost or left over in
-- shared memory, whichever worker is killed at whatever moment and replaced.

local cjson = require("cjson")
local nginx = require("test.gateway.virtual.nginx")

local settings = { gatewayDir = "/nowhere/of-a-virtual-nginx/" }

local function document(name, quota)
  return cjson.encode({
    app = "shop",
    document = {
      name = name,
      match = { paths = { "/" .. name } },
      limits = { { algorithm = "fixed-window", quota = quota, window = "1h" } },
    },
  })
end

local function ban(id)
  return ('{"id":"%s","app":"shop","cidr":"192.0.2.%d/32","untilSeconds":%d}'):format(id, id:match("%d+") % 250, 4000000000)
end

-- A text of a control plane: `sets` has quotas by name, `gone` names; `bans` ids, each true (set) or false (gone).
local function frame(kind, from, revision, sets, gone, bans)
  local policies, removed, banned = {}, {}, {}
  for name, quota in pairs(sets) do
    policies[#policies + 1] = document(name, quota)
  end
  for _, name in ipairs(gone) do
    removed[#removed + 1] = ('{"app":"shop","policy":"%s"}'):format(name)
  end
  for id, isSet in pairs(bans) do
    if isSet then
      banned[#banned + 1] = ban(id)
    else
      removed[#removed + 1] = ('{"ban":"%s"}'):format(id)
    end
  end
  table.sort(policies)
  local head = ('{"type":"%s","epoch":"e1","revision":%d,"format":1,"edition":"one"'):format(kind, revision)
  if kind == "delta" then
    head = head .. (',"from":{"epoch":"e1","revision":%d,"edition":"one"}'):format(from)
  end
  local function list(name, lines, ending)
    return ('"%s":[\n%s%s]%s'):format(name, table.concat(lines, ",\n"), #lines > 0 and "\n" or "", ending)
  end
  local text = head .. ",\n" .. list("bans", banned, ",\n") .. list("callers", {}, ",\n")
  if kind == "snapshot" then
    return { text .. list("policies", policies, "}\n") }
  end
  return { text .. list("policies", policies, ",\n") .. list("gone", removed, "}\n") }
end

local function copyOf(model)
  local copy = { revision = model.revision, policies = {}, bans = {} }
  for name, quota in pairs(model.policies) do
    copy.policies[name] = quota
  end
  for id in pairs(model.bans) do
    copy.bans[id] = true
  end
  return copy
end

-- What a worker decides by.
local function stateOf(worker)
  local state = worker.module("gateway.src.snapshot.current").currentState()
  local found = { revision = state.position.revision, policies = {}, bans = {} }
  for _, ofApp in pairs(state.policiesByName) do
    for name, policy in pairs(ofApp) do
      found.policies[name] = policy.limits[1].rate.quota
    end
  end
  for id in pairs(state.bans.byId) do
    found.bans[id] = true
  end
  return found
end

local function count(entries)
  local found = 0
  for _ in pairs(entries) do
    found = found + 1
  end
  return found
end

local function play(seed)
  math.randomseed(seed)
  local random = math.random
  local world = nginx.world({ seed = seed, workers = 3, redis = false, lookUs = 5 })
  world.run(30)
  local model = { revision = 0, policies = {}, bans = {} }
  local owner = 1
  local kills, large, resyncs = 0, 0, 0

  local function changed()
    local after = copyOf(model)
    after.revision = model.revision + 1
    local sets, gone, bans = {}, {}, {}
    local isLarge = random(12) == 1
    for _ = 1, isLarge and 260 or random(4) do
      local name = "p" .. random(isLarge and 300 or 12)
      if random(4) == 1 and model.policies[name] and sets[name] == nil then
        gone[#gone + 1] = name
        after.policies[name] = nil
        -- It may be made again in the same change.
        if random(3) == 1 then
          sets[name] = random(1000)
          after.policies[name] = sets[name]
        else
          sets[name] = false
        end
      elseif sets[name] ~= false then
        sets[name] = random(1000)
        after.policies[name] = sets[name]
      end
    end
    for name, quota in pairs(sets) do
      if not quota then
        sets[name] = nil
      end
    end
    if random(5) == 1 then
      local id = "b" .. random(40)
      bans[id] = random(2) == 1
      after.bans[id] = bans[id] or nil
    end
    large = large + (isLarge and 1 or 0)
    return after, sets, gone, bans
  end

  for _ = 1, 60 do
    local worker = world.workers[owner]
    local receive = worker.module("gateway.src.push.receive")
    local maintenance = worker.module("gateway.src.push.maintenance")
    local before = copyOf(model)
    local after, sets, gone, bans = changed()
    local text
    if model.revision == 0 or random(15) == 1 then
      text = frame("snapshot", 0, after.revision, after.policies, {}, after.bans)
    elseif random(15) == 1 then
      -- It does not fit what is held.
      text = frame("delta", model.revision + 3, model.revision + 4, sets, {}, {})
    else
      text = frame("delta", model.revision, after.revision, sets, gone, bans)
    end
    local answer
    worker.call(function()
      answer = receive.receive(settings, text)
    end)
    if random(4) == 1 then
      kills = kills + 1
      world.run(random(400) / 100)
      worker.kill()
      world.addWorker(owner).begin()
      owner = random(3)
      world.run(200)
      -- It was published, or it was not.
      local held = stateOf(world.workers[owner])
      model = held.revision == before.revision and before or after
      if answer and answer.type == "resync" then
        model = before
      end
    else
      world.run(400)
      assert(answer, "no answer")
      if answer.type == "resync" then
        resyncs = resyncs + 1
        assert.equal(before.revision, answer.revision)
        model = before
      else
        assert.equal("applied", answer.type, cjson.encode(answer))
        model = after
      end
    end
    for number, one in ipairs(world.workers) do
      assert.same(model, stateOf(one), "seed " .. seed .. ", worker " .. number)
    end
    if random(3) == 1 then
      world.workers[owner].call(function()
        maintenance = world.workers[owner].module("gateway.src.push.maintenance")
        maintenance.maintain(settings, function()
          return false
        end)
      end)
      world.run(50)
    end
  end
  -- The last owner publishes once more and cleans up: then shared memory has what is in force, and nothing else.
  local worker = world.workers[owner]
  for round = 1, 2 do
    worker.call(function()
      local receive = worker.module("gateway.src.push.receive")
      receive.receive(settings, frame("delta", model.revision + round - 1, model.revision + round, {}, {}, {}))
    end)
    world.run(400)
  end
  worker.call(function()
    worker.module("gateway.src.push.maintenance").maintain(settings, function()
      return false
    end)
  end)
  world.run(50)
  local entries, records = 0, 0
  for _, key in ipairs(world.dict("sluice_state"):get_keys(0)) do
    entries = entries + (key:find("^entry:") and 1 or 0)
    records = records + (key:find("^change") and 1 or 0)
  end
  assert.equal(count(model.policies) + count(model.bans), entries, "seed " .. seed)
  assert.equal(0, records, "seed " .. seed)
  return kills, large, resyncs
end

describe("changes that one worker publishes", function()
  it("reach all workers whole, whoever is killed", function()
    local kills, large, resyncs = 0, 0, 0
    for seed = 1, 12 do
      local ofSeed = { play(seed) }
      kills, large, resyncs = kills + ofSeed[1], large + ofSeed[2], resyncs + ofSeed[3]
    end
    assert.is_true(kills > 30 and large > 15 and resyncs > 15, ("%d %d %d"):format(kills, large, resyncs))
  end)
end)

describe("a worker that stalls while it takes in a change", function()
  local function never() end

  -- Worker 1 has revision 1, with p1 and p2. Worker 2 takes in what `others` is while worker 1 is stalled at `stalls`, with `own`.
  local function stall(own, others, stalls)
    local world = nginx.world({ seed = 1, workers = 3, redis = false, lookUs = 5 })
    world.run(30)
    local first, second = world.workers[1], world.workers[2]
    first.call(function()
      first.module("gateway.src.push.receive").receive(settings, frame("snapshot", 0, 1, { p1 = 1, p2 = 1 }, {}, {}))
    end)
    world.run(400)
    local published, failure
    first.call(function()
      local module = first.module
      local publication = module("gateway.src.snapshot.publication")
      local before = module("gateway.src.snapshot.applied-versions").ownVersion()
      local state = module("gateway.src.snapshot.current").currentState()
      local json = module("gateway.src.snapshot.text").json
      local pieces = own
      local read = module("limiter.src.protocol.read-frame").readFrame(function(place)
        return pieces[place + 1]
      end, json, publication.heldEntries(), never)
      local pauses = 0
      local function pauseIn(step)
        return function()
          pauses = pauses + 1
          if step == stalls and pauses == 2 then
            first.ngx.sleep(2)
          end
        end
      end
      local change = module("limiter.src.state.change")
      local prepared = change.prepareChange(state, read.frame.change, { problems = {} }, pauseIn("preparing"))
      pauses = 0
      published, failure =
        publication.publish(prepared, read.frame.set, read.frame.gone, before, pauseIn("storing"))
    end)
    world.run(100)
    local answer
    second.call(function()
      answer = second.module("gateway.src.push.receive").receive(settings, others)
    end)
    world.run(4000)
    assert.are.equal("applied", answer.type)
    assert.is_nil(published)
    assert.are.equal("another worker has published a change meanwhile", failure)
    -- One that starts reads what is in shared memory.
    world.workers[3].kill()
    world.addWorker(3).begin()
    world.run(200)
    return world
  end

  it("deletes nothing of the worker that took over, and adds nothing to it", function()
    local world = stall(
      frame("delta", 1, 2, { a1 = 7, a2 = 7, a3 = 7 }, {}, {}),
      frame("delta", 1, 2, { b1 = 9, b2 = 9, b3 = 9 }, {}, {}),
      "storing"
    )
    local expected = { revision = 2, policies = { p1 = 1, p2 = 1, b1 = 9, b2 = 9, b3 = 9 }, bans = {} }
    for _, worker in ipairs(world.workers) do
      assert.are.same(expected, stateOf(worker))
    end
    -- And the one that stalled can take in changes again.
    local first = world.workers[1]
    local answer
    first.call(function()
      answer = first.module("gateway.src.push.receive").receive(settings, frame("delta", 2, 3, { c1 = 5 }, { "p1" }, {}))
    end)
    world.run(400)
    assert.are.equal("applied", answer.type)
    expected = { revision = 3, policies = { p2 = 1, b1 = 9, b2 = 9, b3 = 9, c1 = 5 }, bans = {} }
    for _, worker in ipairs(world.workers) do
      assert.are.same(expected, stateOf(worker))
    end
  end)

  it("does not put an older change on top of a newer one", function()
    local world = stall(
      frame("delta", 1, 2, { a1 = 1, a2 = 1 }, { "p1" }, {}),
      frame("delta", 1, 3, { p1 = 9, b1 = 9 }, { "p2" }, {}),
      "preparing"
    )
    for _, worker in ipairs(world.workers) do
      assert.are.same({ revision = 3, policies = { p1 = 9, b1 = 9 }, bans = {} }, stateOf(worker))
    end
  end)
end)

it("a worker that is killed between the parts of a version's record keeps nobody from publishing", function()
  local world = nginx.world({ seed = 1, workers = 2, redis = false, lookUs = 5 })
  world.run(30)
  -- What it leaves: a part of the record, and no length.
  assert.is_true(world.dict("sluice_state"):safe_add("change:1:0", "+0"))
  local second = world.workers[2]
  local answer
  second.call(function()
    answer = second.module("gateway.src.push.receive").receive(settings, frame("snapshot", 0, 1, { p1 = 1 }, {}, {}))
  end)
  world.run(400)
  assert.are.equal("applied", answer.type)
  assert.are.same({ revision = 1, policies = { p1 = 1 }, bans = {} }, stateOf(world.workers[1]))
end)

it("the log that could not be written is written as soon as it can be, without another change", function()
  local directory = os.tmpname()
  os.remove(directory)
  local log = directory .. "/policies.log"
  local ofDirectory = { gatewayDir = directory .. "/" }
  local world = nginx.world({ seed = 1, workers = 1, redis = false, lookUs = 5 })
  world.run(30)
  local worker = world.workers[1]
  local answer
  worker.call(function()
    answer = worker.module("gateway.src.push.receive").receive(ofDirectory, frame("snapshot", 0, 1, { p1 = 1 }, {}, {}))
  end)
  world.run(400)
  assert.are.equal("applied", answer.type)
  assert.is_nil(io.open(log))
  os.execute("mkdir -p " .. directory)
  for _ = 1, 120 do
    world.run(1000)
    worker.call(function()
      worker.module("gateway.src.push.maintenance").maintain(ofDirectory, function()
        return false
      end)
    end)
  end
  world.run(1000)
  local written = io.open(log)
  assert.is_not_nil(written)
  written:close()
  os.execute("rm -r " .. directory)
end)
