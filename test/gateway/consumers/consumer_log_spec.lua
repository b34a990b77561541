-- gateway/src/consumers/consumer-log.ts: the log of consumers on a real disk, which never grows without end, whatever state the gateway
-- is in, and what a gateway that starts knows from it.

local ffi = require("ffi")
local nginx = require("test.gateway.virtual.nginx")

ffi.cdef([[
  struct file_size_limit { unsigned long soft, hard; };
  int getrlimit(int resource, struct file_size_limit *limit);
  int setrlimit(int resource, const struct file_size_limit *limit);
  void *signal(int number, void *handler);
]])

local directories = {}

-- Calls `work` while files cannot grow, as on a full disk.
local function withFullDisk(work)
  local fileSize, tooLarge, ignored = 1, 25, ffi.cast("void *", 1)
  local limit = ffi.new("struct file_size_limit")
  assert(ffi.C.getrlimit(fileSize, limit) == 0)
  local before, handler = limit.soft, ffi.C.signal(tooLarge, ignored)
  limit.soft = 0
  assert(ffi.C.setrlimit(fileSize, limit) == 0)
  local worked, failure = pcall(work)
  limit.soft = before
  assert(ffi.C.setrlimit(fileSize, limit) == 0)
  ffi.C.signal(tooLarge, handler)
  assert(worked, failure)
end

local function newDirectory()
  local directory = os.tmpname()
  os.remove(directory)
  assert(os.execute("mkdir " .. directory) == 0)
  directories[#directories + 1] = directory
  return directory .. "/"
end

local function bytesOf(path)
  local file = io.open(path, "rb")
  if not file then
    return nil
  end
  local bytes = file:seek("end")
  file:close()
  return bytes
end

-- A gateway that starts with what is in the directory.
local function startIn(directory, options)
  options = options or {}
  local world = nginx.world({
    workers = 1,
    redis = false,
    sizes = { sluice_consumers = options.bytes or 4194304 },
    environment = { SLUICE_GATEWAY_DIR = directory },
    lookUs = options.lookUs,
  })
  local push = world.workers[1].module("gateway.src.push.consumers")
  local held = world.workers[1].module("gateway.src.consumers.held")
  local settings = { gatewayDir = directory }
  local gateway = { world = world, position = 0, epoch = "e1" }

  -- Begins to take a message, without waiting for the end.
  function gateway.begin(more, fresh, ...)
    local from = fresh and 0 or gateway.position
    gateway.position = from + select("#", ...)
    local head = '{"type":"consumers","epoch":"%s","from":%d,"to":%d,"fresh":%s,"more":%s}\n'
    local text = head:format(gateway.epoch, from, gateway.position, tostring(fresh), tostring(more)) .. table.concat({ ... }, "\n") .. "\n"
    world.workers[1].call(function()
      push.takeConsumers(settings, { text })
    end)
  end
  function gateway.take(...)
    gateway.begin(...)
    world.run(1000)
  end
  -- `looks`: after so many looks, something waits.
  function gateway.beginMaintenance(isBusy, looks)
    looks = looks or math.huge
    world.workers[1].call(function()
      push.maintainConsumers(settings, function()
        looks = looks - 1
        return not isBusy and looks > 0
      end)
    end)
  end
  function gateway.maintain(isBusy)
    gateway.beginMaintenance(isBusy)
    world.run(30000)
  end
  -- Returns what the owner asks the control plane for, ten seconds after a failure.
  function gateway.lacking()
    world.run(11000000)
    local found
    world.workers[1].call(function()
      found = push.lackingConsumers()
    end)
    world.run(10)
    return found
  end
  function gateway.held()
    local found
    world.workers[1].call(function()
      found = held.heldConsumers()
    end)
    world.run(10)
    return found
  end
  function gateway.plan(id)
    local found
    world.workers[1].call(function()
      found = world.workers[1].module("gateway.src.consumers.consumers").consumerOf("shop", id)
    end)
    world.run(300)
    return found
  end
  world.run(50)
  return gateway
end

-- Lines of so many consumers, each a little longer than a KB.
local function lines(count, plan)
  local all = {}
  for i = 1, count do
    all[i] = ("+shop:%d\t%s\t%s"):format(i, plan, ("x"):rep(1024))
  end
  return unpack(all)
end

local megabyte = 1000

describe("the log of consumers", function()
  teardown(function()
    for _, directory in ipairs(directories) do
      os.execute("rm -r " .. directory)
    end
  end)

  it("is written anew while the dict is full, and whoever starts with it asks for everything", function()
    local directory = newDirectory()
    local gateway = startIn(directory, { bytes = 65536 })
    gateway.take(false, true, lines(megabyte, "pro"))
    assert.is_true(gateway.held().unstored > 900)
    for i = 1, 9 do
      gateway.take(false, false, lines(megabyte, "pro" .. i))
    end
    assert.is_true(bytesOf(directory .. "consumers.log") > 10000000)
    gateway.maintain()
    assert.is_true(bytesOf(directory .. "consumers.log") < 100000, bytesOf(directory .. "consumers.log"))
    local count = gateway.held().count
    gateway.take(false, false, "+shop:late\tpro")

    -- The dict is larger now, but what was not there is not on disk either.
    local restarted = startIn(directory)
    local held = restarted.held()
    assert.same({ "", 0, count + 1 }, { held.epoch, held.position, held.count })
    assert.is_true(held.unstored > 900)
    assert.equal("pro9", restarted.plan("1"))
    assert.equal(1, #restarted.world.logged("consumers found no room"))
    restarted.take(false, true, lines(800, "new"))
    held = restarted.held()
    assert.same({ "e1", 800, 0 }, { held.epoch, held.position, held.unstored })
    assert.equal("new", restarted.plan("800"))
    held = startIn(directory).held()
    assert.same({ "e1", 800, 0 }, { held.epoch, held.position, held.unstored })
  end)

  it("is written anew while it is not whole yet, because changes come faster than the gateway gets everything", function()
    local directory = newDirectory()
    local gateway = startIn(directory)
    gateway.take(true, true, lines(megabyte, "pro"))
    for i = 1, 9 do
      gateway.take(true, false, lines(megabyte, "pro" .. i))
    end
    assert.is_true(bytesOf(directory .. "consumers-next.log") > 10000000)
    gateway.maintain()
    assert.is_true(bytesOf(directory .. "consumers-next.log") < 1500000)
    gateway.take(false, false, "+shop:late\tpro")
    assert.is_nil(bytesOf(directory .. "consumers-next.log"))
    local restarted = startIn(directory)
    assert.same({ "e1", gateway.position, 1001, 0 }, {
      restarted.held().epoch,
      restarted.held().position,
      restarted.held().count,
      restarted.held().unstored,
    })
    assert.equal("pro9", restarted.plan("1000"))
  end)

  it("is written anew although policies change all the time, once it has grown very long", function()
    local directory = newDirectory()
    local gateway = startIn(directory)
    gateway.take(false, true, lines(megabyte, "pro"))
    local log = directory .. "consumers.log"
    for i = 1, 31 do
      gateway.take(false, false, lines(megabyte, "pro" .. i))
    end
    gateway.maintain(true)
    assert.is_true(bytesOf(log) > 30000000)
    gateway.take(false, false, lines(megabyte, "pro32"))
    gateway.take(false, false, lines(megabyte, "pro33"))
    gateway.maintain(true)
    assert.is_true(bytesOf(log) < 1500000, bytesOf(log))
    assert.equal("pro33", startIn(directory).plan("1"))
  end)

  it("is not written anew while what came last is not in force yet, and keeps what comes while it is written", function()
    local directory = newDirectory()
    local gateway = startIn(directory, { lookUs = 400 })
    local function need()
      local found
      gateway.world.workers[1].call(function()
        found = gateway.world.workers[1].module("gateway.src.consumers.consumer-log").needsRewriting()
      end)
      -- The worker may be busy with what has come.
      for _ = 1, 10 do
        gateway.world.run(found == nil and 2 or 0)
      end
      return found
    end
    gateway.take(false, true, lines(megabyte, "pro"))
    for i = 1, 9 do
      gateway.take(false, false, lines(megabyte, "pro" .. i))
    end
    assert.equal("idle", need())
    -- The worker is free again, so that it begins at once.
    gateway.world.run(1)
    gateway.begin(false, false, lines(megabyte, "last"))
    assert.equal("no", need())
    gateway.world.run(1000)
    assert.equal("idle", need())
    gateway.beginMaintenance()
    gateway.world.run(5)
    gateway.begin(false, false, "+shop:1\tlate", "-shop:2")
    gateway.world.run(5)
    assert.is_true(bytesOf(directory .. "consumers.log") > 10000000)
    gateway.world.run(30000)
    assert.is_true(bytesOf(directory .. "consumers.log") < 1500000, bytesOf(directory .. "consumers.log"))
    local restarted = startIn(directory)
    assert.same({ 999, gateway.position }, { restarted.held().count, restarted.held().position })
    assert.equal("late", restarted.plan("1"))
    assert.is_nil(restarted.plan("2"))
    assert.equal("last", restarted.plan("1000"))
  end)

  it("keeps one line of each consumer when it is written anew, however often they were changed to and fro", function()
    local directory = newDirectory()
    local log = directory .. "consumers.log"
    local gateway = startIn(directory)
    local function toAndFro(more)
      for _ = 1, 5 do
        gateway.take(more, false, lines(megabyte, "free"))
        gateway.take(more, false, lines(megabyte, "pro"))
      end
    end
    gateway.take(false, true, "+shop:0\tpro", lines(megabyte, "pro"))
    for _ = 1, 2 do
      toAndFro(false)
      assert.is_true(bytesOf(log) > 10000000)
      -- Something else must be done, some MB later.
      gateway.beginMaintenance(false, 6)
      gateway.world.run(30000)
      assert.is_true(bytesOf(log) > 10000000)
      gateway.beginMaintenance()
      gateway.world.run(5)
      gateway.begin(false, false, "+shop:1\tfree", "+shop:1\tpro")
      gateway.world.run(30000)
      assert.is_true(bytesOf(log) < 1500000, bytesOf(log))
    end
    local restarted = startIn(directory)
    assert.same({ 1001, gateway.position }, { restarted.held().count, restarted.held().position })
    assert.same({ "pro", "pro", "pro" }, { restarted.plan("1"), restarted.plan("1000"), restarted.plan("0") })

    -- The same while the gateway begins anew, where consumers have to come again.
    gateway.take(true, true, lines(megabyte, "pro"))
    toAndFro(true)
    gateway.maintain()
    assert.is_true(bytesOf(directory .. "consumers-next.log") < 1500000)
    assert.equal("pro", gateway.plan("0"))
    gateway.take(false, false, "+shop:late\tpro")
    gateway.maintain()
    for _, each in ipairs({ gateway, startIn(directory) }) do
      assert.same({ 1001, gateway.position }, { each.held().count, each.held().position })
      assert.same({ "pro", "pro", "pro" }, { each.plan("1"), each.plan("1000"), each.plan("late") })
      assert.is_nil(each.plan("0"))
    end
  end)

  it("that was written anew and has lost its end does not keep what was deleted since: all is asked for", function()
    local directory = newDirectory()
    local log = directory .. "consumers.log"
    local gateway = startIn(directory)
    gateway.take(false, true, lines(megabyte, "pro"))
    for i = 1, 9 do
      gateway.take(false, false, lines(megabyte, "pro" .. i))
    end
    gateway.maintain()
    local bytes = bytesOf(log)
    assert.is_true(bytes < 1500000, bytes)
    local file = assert(io.open(log, "rb"))
    local text = file:read("*a")
    file:close()
    -- The last block says the position; without it, the file ends in the middle of a block or after one.
    for _, lost in ipairs({ 100, 384 }) do
      file = assert(io.open(log, "wb"))
      file:write(text:sub(1, -lost - 1))
      file:close()
      local restarted = startIn(directory)
      assert.same({ "", 0, 1000 }, { restarted.held().epoch, restarted.held().position, restarted.held().count })
      assert.equal("pro9", restarted.plan("1"))
    end
    local restarted = startIn(directory)
    restarted.take(false, true, lines(999, "new"))
    restarted.maintain()
    assert.same({ "e1", 999, 999 }, { restarted.held().epoch, restarted.held().position, restarted.held().count })
    assert.is_nil(restarted.plan("1000"))
  end)

  it("has one history, also if the disk was full when everything came anew after a restore", function()
    local directory = newDirectory()
    local gateway = startIn(directory)
    gateway.take(false, true, lines(10, "lost"))
    gateway.epoch = "e2"
    withFullDisk(function()
      gateway.take(false, true, lines(8, "kept"))
    end)
    -- These reach the position of the log from before.
    for i = 9, 12 do
      gateway.take(false, false, "+shop:new" .. i .. "\tpro")
    end
    local asked = gateway.lacking()
    assert.same({ "", 0 }, { asked.epoch, asked.position })
    local restarted = startIn(directory)
    assert.same({ "e1", 10, 10 }, { restarted.held().epoch, restarted.held().position, restarted.held().count })
    gateway.take(false, true, lines(8, "kept"))
    restarted = startIn(directory)
    assert.same({ "e2", 8, 8 }, { restarted.held().epoch, restarted.held().position, restarted.held().count })
    assert.equal("kept", restarted.plan("8"))
  end)

  it("of a machine that stopped is cut by a worker at the next change, and not at the start, when nginx is root", function()
    local directory = newDirectory()
    local gateway = startIn(directory)
    gateway.take(false, true, "+shop:ann\tpro")
    gateway.take(false, false, "+shop:bob\tpro")
    local log = directory .. "consumers.log"
    local whole = bytesOf(log)
    local file = assert(io.open(log, "ab"))
    file:write(("x"):rep(5000))
    file:close()

    local restarted = startIn(directory)
    restarted.position = 2
    assert.equal("pro", restarted.plan("bob"))
    assert.equal(whole + 5000, bytesOf(log))
    assert.equal(1, #restarted.world.logged("is damaged after " .. whole .. " bytes"))
    restarted.take(false, false, "+shop:eve\tpro")
    assert.is_true(bytesOf(log) < whole + 500)
    local last = startIn(directory)
    assert.same({ 3, 3 }, { last.held().position, last.held().count })
    assert.equal(0, #last.world.logged("is damaged"))
  end)

  it("with a block that says how long it is and lies, is not read into memory", function()
    local directory = newDirectory()
    startIn(directory).take(false, true, "+shop:ann\tpro")
    local log = directory .. "consumers.log"
    local file = assert(io.open(log, "ab"))
    file:write((('{"epoch":"e1","from":1,"to":2,"bytes":%d,"sha256":"0"}'):format(67108865) .. (" "):rep(400)):sub(1, 384))
    file:close()
    local restarted = startIn(directory)
    assert.equal("pro", restarted.plan("ann"))
    assert.equal(1, #restarted.world.logged("more bytes than a block may have"))
  end)
end)
