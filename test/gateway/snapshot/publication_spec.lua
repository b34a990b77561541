-- gateway/src/snapshot/publication.ts and distribution.ts: all workers decide by the same policies, and nothing is lost or left over in
-- shared memory, whichever worker is killed at whatever moment and replaced.

local cjson = require("cjson")
local nginx = require("test.gateway.virtual.nginx")

local settings = { gatewayDir = "/nowhere/of-a-virtual-nginx/" }

-- The control plane waits for the answer.
local function awaited()
  return true
end

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
      answer = receive.receive(settings, text, awaited)
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
      receive.receive(settings, frame("delta", model.revision + round - 1, model.revision + round, {}, {}, {}), awaited)
    end)
    world.run(400)
  end
  worker.call(function()
    worker.module("gateway.src.push.maintenance").maintain(settings, function()
      return false
    end)
  end)
  world.run(50)
  local entries, records, positions = 0, 0, 0
  for _, key in ipairs(world.dict("sluice_state"):get_keys(0)) do
    entries = entries + (key:find("^entry:") and 1 or 0)
    records = records + (key:find("^change") and 1 or 0)
    positions = positions + (key:find("^position:") and 1 or 0)
  end
  assert.equal(count(model.policies) + count(model.bans), entries, "seed " .. seed)
  assert.equal(0, records, "seed " .. seed)
  assert.equal(1, positions, "seed " .. seed)
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

describe("shared memory", function()
  it("takes no more after a thousand edits than after a hundred", function()
    local world = nginx.world({ seed = 1, workers = 2, redis = false, lookUs = 5 })
    world.run(30)
    local worker = world.workers[1]
    local function edit(revision)
      worker.call(function()
        local kind = revision == 1 and "snapshot" or "delta"
        local text = frame(kind, revision - 1, revision, { p1 = revision }, {}, {})
        worker.module("gateway.src.push.receive").receive(settings, text, awaited)
        worker.module("gateway.src.push.maintenance").maintain(settings, function()
          return true
        end)
      end)
      world.run(40)
    end
    local keys = {}
    for revision = 1, 1000 do
      edit(revision)
      keys[revision] = #world.dict("sluice_state"):get_keys(0)
    end
    assert.equal(keys[100], keys[1000])
  end)
end)

describe("a worker that stalled while it published", function()
  local world, a, b
  before_each(function()
    world = nginx.world({ seed = 1, workers = 3, redis = false, lookUs = 5 })
    world.run(30)
    a, b = world.workers[1], world.workers[2]
    a.call(function()
      a.module("gateway.src.push.receive").receive(settings, frame("snapshot", 0, 1, { p1 = 1, p2 = 1 }, {}, {}), awaited)
    end)
    world.run(400)
  end)

  -- The first worker publishes a delta from revision 1 and stalls for 2 s, in one of the pauses of a step.
  local function stall(step, pauseNumber, sets, gone)
    local result = {}
    a.call(function()
      local publication = a.module("gateway.src.snapshot.publication")
      local text = frame("delta", 1, 2, sets, gone, {})
      local function none() end
      local pauses = 0
      local function stalling()
        pauses = pauses + 1
        if pauses == pauseNumber then
          a.ngx.sleep(2)
        end
      end
      local preparedOn = a.module("gateway.src.snapshot.shared-entries").publishedVersion()
      local read = a.module("limiter.src.protocol.read-frame").readFrame(function(place)
        return text[place + 1]
      end, a.module("gateway.src.snapshot.text").json, publication.heldEntries(), none)
      local prepared = a.module("limiter.src.state.change").prepareChange(
        a.module("gateway.src.snapshot.current").currentState(),
        read.frame.change,
        { problems = {} },
        step == "prepare" and stalling or none
      )
      result.version, result.failure =
        publication.publish(prepared, preparedOn, read.frame.set, read.frame.gone, step == "store" and stalling or none)
      result.ended = true
    end)
    world.run(100)
    assert.is_nil(result.ended)
    return result
  end

  local function otherPublishes(revision, sets, gone)
    local answer
    b.call(function()
      answer = b.module("gateway.src.push.receive").receive(settings, frame("delta", 1, revision, sets, gone, {}), awaited)
    end)
    world.run(1000)
    assert.equal("applied", answer.type)
  end

  local function assertAllHave(expected)
    world.workers[3].kill()
    world.addWorker(3).begin()
    world.run(200)
    for number, worker in ipairs(world.workers) do
      assert.same(expected, stateOf(worker), "worker " .. number)
    end
  end

  for pauseNumber = 1, 4 do
    it("deletes nothing of its successor, stalled in pause " .. pauseNumber .. " of storing", function()
      local result = stall("store", pauseNumber, { a1 = 7, a2 = 7, a3 = 7 }, {})
      otherPublishes(2, { b1 = 9, b2 = 9, b3 = 9 }, {})
      world.run(3000)
      assert.is_true(result.ended)
      assert.is_nil(result.version)
      assertAllHave({ revision = 2, policies = { p1 = 1, p2 = 1, b1 = 9, b2 = 9, b3 = 9 }, bans = {} })
    end)
  end

  it("does not put an older change on top of a newer one", function()
    local result = stall("prepare", 1, { p1 = 7 }, {})
    otherPublishes(3, { p1 = 9, b1 = 9 }, { "p2" })
    world.run(3000)
    assert.is_true(result.ended)
    assert.is_nil(result.version)
    assertAllHave({ revision = 3, policies = { p1 = 9, b1 = 9 }, bans = {} })
  end)
end)

describe("the log on disk", function()
  local directory
  before_each(function()
    directory = os.tmpname()
    os.remove(directory)
    directory = directory .. "/"
  end)
  after_each(function()
    os.execute("rm -rf '" .. directory .. "'")
  end)

  it("is written without another edit once the disk can be written, and not if entries are missing", function()
    local own = { gatewayDir = directory }
    local world = nginx.world({ seed = 1, workers = 1, redis = false, lookUs = 5 })
    world.run(30)
    local worker = world.workers[1]
    local function maintain()
      worker.call(function()
        worker.module("gateway.src.push.maintenance").maintain(own, function()
          return false
        end)
      end)
      world.run(1000)
    end
    local function isThere()
      local file = io.open(directory .. "policies.log")
      return file ~= nil and file:close()
    end
    worker.call(function()
      worker.module("gateway.src.push.receive").receive(own, frame("snapshot", 0, 1, { p1 = 1, p2 = 1 }, {}, {}), awaited)
    end)
    world.run(400)
    os.execute("mkdir -p '" .. directory .. "'")
    world.run(11000)
    local dict = world.dict("sluice_state")
    local entry = dict:get("entry:0")
    dict:delete("entry:0")
    maintain()
    assert.is_false(isThere())
    local answer
    worker.call(function()
      answer = worker.module("gateway.src.push.receive").lateAnswer()
    end)
    assert.equal("resync", answer.type)
    dict:set("entry:0", entry, 0, 1)
    world.run(11000)
    maintain()
    assert.is_truthy(isThere())
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
    answer = second.module("gateway.src.push.receive").receive(settings, frame("snapshot", 0, 1, { p1 = 1 }, {}, {}), awaited)
  end)
  world.run(400)
  assert.are.equal("applied", answer.type)
  assert.are.same({ revision = 1, policies = { p1 = 1 }, bans = {} }, stateOf(world.workers[1]))
end)
