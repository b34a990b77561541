-- gateway/src/push/consumers.ts and gateway/src/consumers: what a gateway makes of messages with consumers, one after the other.

local nginx = require("test.gateway.virtual.nginx")

local function message(head, ...)
  return { '{"type":"consumers",' .. head .. "}\n" .. table.concat({ ... }, "\n") .. "\n" }
end

-- A world of two workers, the first of which takes messages.
local function taking(bytes)
  local world = nginx.world({ workers = 2, redis = false, sizes = { sluice_consumers = bytes or 1048576 } })
  world.run(50)
  local push = world.workers[1].module("gateway.src.push.consumers")
  local settings = { gatewayDir = "/nowhere/of-a-virtual-nginx/" }
  local function take(pieces)
    local answer
    world.workers[1].call(function()
      answer = push.takeConsumers(settings, pieces)
    end)
    world.run(300)
    return answer
  end
  -- As the second worker sees it, which reads shared memory alone.
  local function plan(id)
    local found, overrides
    world.workers[2].call(function()
      found, overrides = world.workers[2].module("gateway.src.consumers.consumers").consumerOf("shop", id)
    end)
    return found, overrides
  end
  local function maintain()
    world.workers[1].call(function()
      push.maintainConsumers(settings, function()
        return true
      end)
    end)
    world.run(300)
  end
  return take, plan, maintain, world
end

-- Returns whether the first worker asks the control plane for all consumers.
local function asksForAll(world)
  local message
  world.workers[1].call(function()
    message = world.workers[1].module("gateway.src.push.consumers").lackingConsumers()
  end)
  return message and message.epoch == ""
end

describe("consumers", function()
  it("are set, changed and removed, for every worker, and the answer has the position", function()
    local take, plan = taking()
    local head = '"epoch":"e1","from":0,"to":2,"fresh":true,"more":false'
    local answer = take(message(head, "+shop:ann\tpro", '+shop:bob: x\tfree\t{"books":[]}'))
    assert.same({ type = "consumers", epoch = "e1", position = 2, count = 2, unstored = 0 }, answer)
    assert.equal("pro", plan("ann"))
    assert.same({ "free", '{"books":[]}' }, { plan("bob: x") })
    assert.is_nil(plan("carl"))
    answer = take(message('"epoch":"e1","from":2,"to":4,"more":false', "+shop:ann\tfree", "-shop:bob: x"))
    assert.same({ 4, 1 }, { answer.position, answer.count })
    assert.equal("free", plan("ann"))
    assert.is_nil(plan("bob: x"))
  end)

  it("of a message that does not follow what is held change nothing, and the answer says what is", function()
    local take, plan = taking()
    take(message('"epoch":"e1","from":0,"to":2,"fresh":true,"more":false', "+shop:ann\tpro"))
    local answer = take(message('"epoch":"e1","from":1,"to":3,"more":false', "-shop:ann"))
    assert.same({ "e1", 2 }, { answer.epoch, answer.position })
    assert.equal("pro", plan("ann"))
  end)

  it("go on in another epoch", function()
    local take, plan = taking()
    take(message('"epoch":"e1","from":0,"to":2,"fresh":true,"more":false', "+shop:ann\tpro"))
    local answer = take(message('"epoch":"e2","from":2,"to":2,"more":false'))
    assert.same({ "e2", 2, 1 }, { answer.epoch, answer.position, answer.count })
    answer = take(message('"epoch":"e2","from":2,"to":3,"more":false', "+shop:ann\tfree"))
    assert.same({ "e2", 3, 1 }, { answer.epoch, answer.position, answer.count })
    assert.equal("free", plan("ann"))
  end)

  it("stay in force while a gateway begins anew, and those that did not come again are gone afterwards", function()
    local take, plan, maintain = taking()
    take(message('"epoch":"e1","from":0,"to":3,"fresh":true,"more":false', "+shop:ann\tpro", "+shop:bob\tpro", "+shop:eve\tpro"))
    take(message('"epoch":"e2","from":0,"to":1,"fresh":true,"more":true', "+shop:ann\tfree"))
    assert.same({ "free", "pro", "pro" }, { (plan("ann")), (plan("bob")), (plan("eve")) })
    maintain()
    assert.equal("pro", plan("bob"))
    local answer = take(message('"epoch":"e2","from":1,"to":2,"more":false', "+shop:bob\tpro"))
    -- It is not in force any more, even before it is deleted.
    assert.same({ 2, 3 }, { answer.position, answer.count })
    assert.same({ "free", "pro" }, { (plan("ann")), (plan("bob")) })
    assert.is_nil(plan("eve"))
    maintain()
    answer = take(message('"epoch":"e2","from":2,"to":3,"more":false', "+shop:fay\tpro"))
    assert.equal(3, answer.count)
    assert.is_nil(plan("eve"))
    assert.equal("pro", plan("fay"))
  end)

  it("that find no memory are counted, and evict nobody", function()
    local take, plan, _, world = taking(16384)
    local lines = {}
    for i = 1, 400 do
      lines[i] = ("+shop:%s-%d\tpro"):format(("n"):rep(60), i)
    end
    local answer = take(message('"epoch":"e1","from":0,"to":400,"fresh":true,"more":false', unpack(lines)))
    assert.is_true(answer.unstored > 0, tostring(answer.unstored))
    assert.equal(400, answer.count + answer.unstored)
    assert.equal("pro", plan(("n"):rep(60) .. "-1"))
    assert.equal(1, #world.logged("lua_shared_dict sluice_consumers is full"))
  end)

  it("in lines that say nothing are reported, and the others are taken", function()
    local take, plan, _, world = taking()
    local head = '"epoch":"e1","from":0,"to":4,"fresh":true,"more":false'
    assert.equal(4, take(message(head, "shop:x\tpro", "+shop:ann\tpro", "+shop:no-plan", "-")).position)
    assert.equal("pro", plan("ann"))
    assert.equal(1, #world.logged("3 lines that say nothing"))
  end)

  it("take the memory that nginx takes for them", function()
    local _, _, _, world = taking()
    local memoryOf = world.workers[1].module("gateway.src.consumers.shares").memoryOf
    for bytes, taken in pairs({ [60] = 128, [61] = 256, [188] = 256, [189] = 512, [1980] = 2048, [1981] = 4096, [4028] = 4096, [4029] = 8192 }) do
      assert.equal(taken, memoryOf(bytes - 3, 3), bytes)
    end
  end)

  it("that found no room are counted, also if the message that ends the changes is about another app", function()
    local take, _, maintain = taking(65536)
    take(message('"epoch":"e1","from":0,"to":0,"fresh":true,"more":false,"counts":{},"all":true'))
    maintain()
    local lines = {}
    for i = 1, 1000 do
      lines[i] = "+flood:" .. i .. "\tpro"
    end
    local answer = take(message('"epoch":"e1","from":0,"to":1000,"more":true,"counts":{"flood":1000}', unpack(lines)))
    assert.equal(1000, answer.count + answer.unstored)
    answer = take(message('"epoch":"e1","from":1000,"to":1001,"more":false,"counts":{"shop":1}', "+shop:ann\tpro"))
    assert.equal(1001, answer.count + answer.unstored)
    assert.same({ flood = answer.unstored }, answer.lacking)
  end)

  it("that lack room, while there is some, are asked for at once, and ever less often if that does not help", function()
    local take, _, maintain, world = taking()
    take(message('"epoch":"e1","from":0,"to":2,"fresh":true,"more":false,"counts":{"shop":2},"all":true', "+shop:ann\tpro", "+shop:bob\tpro"))
    maintain()
    -- There is no disk to write to, so it asks for what it could not write.
    world.run(11000)
    assert.is_true(asksForAll(world))
    assert.is_not_true(asksForAll(world))
    -- The control plane knows ten of them, and eight are not here.
    local answer = take(message('"epoch":"e1","from":2,"to":3,"more":false,"counts":{"shop":10}', "+shop:ann\tfree"))
    assert.same({ 8, { shop = 8 } }, { answer.unstored, answer.lacking })
    local askedAt = {}
    for second = 0, 60 do
      if asksForAll(world) then
        askedAt[#askedAt + 1] = second
      end
      world.run(1000)
    end
    assert.equal(4, #askedAt, table.concat(askedAt, " "))
    for i, wait in ipairs({ 5, 10, 20 }) do
      assert.is_true(math.abs(askedAt[i + 1] - askedAt[i] - wait) <= 2, table.concat(askedAt, " "))
    end
  end)

  it("that are more than there are have been deleted unnoticed: all are asked for, once", function()
    local take, plan, maintain, world = taking()
    local lines = {}
    for i = 1, 300 do
      lines[i] = ("+shop:%03d\tpro"):format(i)
    end
    local function fill(count)
      local head = '"epoch":"e1","from":0,"to":300,"fresh":true,"more":false,"counts":{"shop":%d},"all":true'
      take(message(head:format(count), unpack(lines, 1, count)))
      maintain()
      -- There is no disk to write to, so it asks for what it could not write.
      world.run(11000)
      assert.is_true(asksForAll(world))
    end
    local function connect(position, more, counts)
      return take(message(('"epoch":"e1","from":%d,"to":%d,"more":%s,"counts":%s,"all":true'):format(position, position + 1, tostring(more), counts)))
    end
    fill(300)
    connect(300, false, '{"shop":300}')
    assert.is_not_true(asksForAll(world))
    connect(301, false, '{"shop":299}')
    assert.is_true(asksForAll(world))
    assert.is_not_true(asksForAll(world))
    -- An app that has none any more is not named.
    connect(302, false, "{}")
    assert.is_true(asksForAll(world))
    -- A deletion may be among the changes that are still to come.
    connect(303, true, '{"shop":299}')
    assert.is_not_true(asksForAll(world))
    take(message('"epoch":"e1","from":304,"to":305,"more":false,"counts":{"shop":299}', "-shop:300"))
    assert.is_not_true(asksForAll(world))
    connect(305, true, '{"shop":298}')
    take(message('"epoch":"e1","from":306,"to":307,"more":false,"counts":{"new":1}', "+new:ann\tpro"))
    assert.is_true(asksForAll(world))

    -- Entries that requests use all the time may stay. The virtual dict lists the same names each time, so it deletes none of these.
    fill(250)
    assert.is_nil(plan("251"))
    assert.equal(299, connect(300, false, '{"shop":250}').count)
    assert.is_not_true(asksForAll(world))
    connect(301, false, '{"shop":249}')
    assert.is_true(asksForAll(world))
  end)

  it("of which nothing is on disk are all asked for, as what comes after position 0 has no deletions", function()
    local take, _, _, world = taking()
    take(message('"epoch":"e1","from":0,"to":1,"fresh":true,"more":false', "+shop:ann\tpro"))
    -- As if the first block alone had found no room on the disk.
    world.dict("sluice_state"):set("consumers-log", '{"epoch":"e1","position":0,"bytes":0,"firstBytes":0,"isNext":true}')
    world.run(11000)
    local asked
    world.workers[1].call(function()
      asked = world.workers[1].module("gateway.src.push.consumers").lackingConsumers()
    end)
    assert.same({ "", 0 }, { asked.epoch, asked.position })
  end)

  it("of a dict of an earlier version, which numbered beginnings alone, are read again, and found where they are on disk or asked for", function()
    local take, plan, _, world = taking()
    take(message('"epoch":"e1","from":0,"to":1,"fresh":true,"more":false', "+shop:ann\tpro"))
    local held = world.workers[1].module("gateway.src.consumers.held")
    assert.is_true(held.openConsumers())
    assert.equal("pro", plan("ann"))
    world.dict("sluice_consumers"):delete("/number")
    assert.is_false(held.openConsumers())
    assert.is_nil(plan("ann"))
    assert.same({ "", 0, 0 }, { held.heldConsumers().epoch, held.heldConsumers().count, held.heldConsumers().unstored })
  end)
end)
