-- A Redis Cluster of virtual servers (redis-server.lua), which redirects as a real one does: MOVED, ASK, TRYAGAIN, CROSSSLOT and
-- CLUSTERDOWN, by the rules of getNodeByQuery in Redis' cluster.c. A test moves slots, kills nodes and promotes replicas, and says which
-- nodes have heard of it.

local bit = require("bit")
local newRedisServer = require("test.gateway.virtual.redis-server").new

local redisCluster = {}

local slotCount = 16384

-- CRC-16 (XMODEM) of the hash tag, bit by bit: the gateway has a table.
function redisCluster.slotOf(key)
  local tag = key:match("^[^{]*{([^}]+)}") or key
  local crc = 0
  for i = 1, #tag do
    crc = bit.bxor(crc, bit.lshift(tag:byte(i), 8))
    for _ = 1, 8 do
      local carry = bit.band(crc, 0x8000) ~= 0
      crc = bit.band(bit.lshift(crc, 1), 0xffff)
      if carry then
        crc = bit.bxor(crc, 0x1021)
      end
    end
  end
  return crc % slotCount
end

-- Which words of a command are keys.
local function keysOf(words)
  local command = words[1]:lower()
  if command == "evalsha" or command == "eval" then
    return { unpack(words, 4, 3 + tonumber(words[3])) }
  elseif command == "get" or command == "set" or command == "pexpire" then
    return { words[2] }
  end
  return {}
end

-- `options`: `nodes` (3), and those of each server.
function redisCluster.new(clock, options)
  local cluster = {
    -- All servers, replicas as well.
    nodes = {},
    listeners = {},
    -- Which node has a slot since the last change.
    owners = {},
  }

  local function addNode()
    local node = newRedisServer(clock, options)
    node.port = 7001 + #cluster.nodes
    node.host = "127.0.0.1"
    node.address = node.host .. ":" .. node.port
    -- By slot: who has it as far as this node has heard, where that is not the last change. `false`: nobody.
    node.beliefs = {}
    -- By slot: where its keys go, and where they come from.
    node.migrating, node.importing = {}, {}
    cluster.nodes[#cluster.nodes + 1] = node
    cluster.listeners[node.address] = node

    local function ownerIn(slot)
      local belief = node.beliefs[slot]
      if belief == nil then
        return cluster.owners[slot]
      end
      return belief
    end

    function node.refusal(words, connection)
      local command = words[1]:lower()
      local asking = connection.asking
      connection.asking = command == "asking"
      local keys = keysOf(words)
      if #keys == 0 then
        return nil
      end
      if node.down then
        return "CLUSTERDOWN The cluster is down"
      end
      local slot = redisCluster.slotOf(keys[1])
      local existing, distinct = 0, {}
      local count = 0
      for _, key in ipairs(keys) do
        if redisCluster.slotOf(key) ~= slot then
          return "CROSSSLOT Keys in request don't hash to the same slot"
        end
        if not distinct[key] then
          distinct[key] = true
          count = count + 1
          existing = existing + (node.keys[key] and 1 or 0)
        end
      end
      local missing = count - existing
      local owner = ownerIn(slot)
      if not owner then
        return "CLUSTERDOWN Hash slot not served"
      end
      local to = node.migrating[slot]
      if owner == node and to and missing > 0 then
        if existing > 0 then
          return "TRYAGAIN Multiple keys request during rehashing of slot"
        end
        return ("ASK %d %s"):format(slot, to.address)
      end
      if node.importing[slot] and asking then
        if count > 1 and missing > 0 then
          return "TRYAGAIN Multiple keys request during rehashing of slot"
        end
        return nil
      end
      if owner ~= node then
        return ("MOVED %d %s"):format(slot, owner.address)
      end
      return nil
    end

    function node.commands.asking()
      return "OK"
    end

    function node.commands.cluster(words)
      assert(words[2]:lower() == "slots", "a command that no gateway sends: CLUSTER " .. words[2])
      local ranges, open = {}, nil
      for slot = 0, slotCount - 1 do
        local owner = ownerIn(slot)
        if open and open.owner == owner then
          open[2] = slot
        else
          open = { slot, slot, owner and { owner.endpoint or owner.host, owner.port, "id" .. owner.port, {} }, owner = owner }
          if owner then
            -- A node that does not know its own address says nothing there.
            if owner.endpoint == false then
              open[3][1] = false
            end
            ranges[#ranges + 1] = open
          end
        end
      end
      return ranges
    end

    return node
  end

  local count = options.nodes or 3
  local seeds = {}
  for i = 1, count do
    local node = addNode()
    seeds[i] = node.address
    for slot = math.floor((i - 1) * slotCount / count), math.floor(i * slotCount / count) - 1 do
      cluster.owners[slot] = node
    end
  end
  cluster.servers = cluster.nodes
  cluster.url = "redis+cluster://" .. table.concat(seeds, ",")

  -- The node that has the slot of this key.
  function cluster.ownerOf(key)
    return cluster.owners[redisCluster.slotOf(key)]
  end

  function cluster.peek(key, limit, cost)
    return cluster.ownerOf(key).peek(key, limit, cost)
  end

  -- How often scripts of this name were run by all nodes.
  function cluster.count(name)
    local sum = 0
    for _, node in ipairs(cluster.nodes) do
      sum = sum + node.count(name)
    end
    return sum
  end

  -- CLUSTER SETSLOT … IMPORTING, and MIGRATING.
  function cluster.beginMove(slot, to)
    local from = cluster.owners[slot]
    from.migrating[slot], to.importing[slot] = to, from
  end

  local function moveKey(key, from, to)
    to.keys[key], to.px[key], to.expiresUs[key] = from.keys[key], from.px[key], from.expiresUs[key]
    from.keys[key], from.px[key], from.expiresUs[key] = nil, nil, nil
  end

  -- MIGRATE of the keys of a slot, in the order of their names; at most so many of them.
  function cluster.moveKeys(slot, to, most)
    local from = cluster.owners[slot]
    local keys = {}
    for key in pairs(from.keys) do
      if redisCluster.slotOf(key) == slot then
        keys[#keys + 1] = key
      end
    end
    table.sort(keys)
    for i = 1, math.min(most or #keys, #keys) do
      moveKey(keys[i], from, to)
    end
  end

  -- CLUSTER SETSLOT … NODE. `told`: the nodes that have heard of it, by default all; the others as they were before.
  function cluster.endMove(slot, to, told)
    local from = cluster.owners[slot]
    from.migrating[slot], to.importing[slot] = nil, nil
    cluster.owners[slot] = to
    if told then
      for _, node in ipairs(cluster.nodes) do
        node.beliefs[slot] = from
      end
      for _, node in ipairs(told) do
        node.beliefs[slot] = nil
      end
    end
  end

  function cluster.move(slot, to)
    cluster.beginMove(slot, to)
    cluster.moveKeys(slot, to)
    cluster.endMove(slot, to)
  end

  -- All nodes have heard of everything.
  function cluster.agree()
    for _, node in ipairs(cluster.nodes) do
      node.beliefs = {}
    end
  end

  -- A node without slots, which knows where all of them are. It has what its primary has when it is promoted.
  function cluster.addReplica()
    local replica = addNode()
    replica.role = "slave"
    return replica
  end

  -- The replica takes the place of the node, and all nodes have heard of it. `loses(key)`: what had not been copied.
  function cluster.failOver(from, replica, loses)
    replica.role = "master"
    for key, value in pairs(from.keys) do
      if not loses or not loses(key) then
        replica.keys[key], replica.px[key], replica.expiresUs[key] = value, from.px[key], from.expiresUs[key]
      end
    end
    for slot, owner in pairs(cluster.owners) do
      if owner == from then
        cluster.owners[slot] = replica
      end
    end
    from.role = "slave"
  end

  return cluster
end

-- For `deploys` of a world.
function redisCluster.deploys(options)
  return function(clock)
    return redisCluster.new(clock, options or {})
  end
end

return redisCluster
