-- A shared dict of ngx_lua. Entries expire by the wall clock that the worker has cached, in whole ms, as nginx does it. Memory
-- is bound only where a world says so.

local sharedDict = {}

-- What an entry takes of a slab, about: a power of two.
local function bytesOf(key, value)
  local bytes = 64
  local needed = 48 + #key + (type(value) == "string" and #value or 8)
  while bytes < needed do
    bytes = bytes * 2
  end
  return bytes
end

function sharedDict.new(name, capacity)
  return { name = name, capacity = capacity, used = 0, entries = {}, count = 0, evicted = 0 }
end

-- The dict as one worker sees it. `nowMs` says its cached time; `between` is called before each access: another worker may act there.
function sharedDict.view(dict, nowMs, between)
  local view = {}

  local function remove(key)
    local entry = dict.entries[key]
    if entry then
      dict.entries[key] = nil
      dict.used = dict.used - entry.bytes
      dict.count = dict.count - 1
    end
  end

  local function live(key)
    assert(type(key) == "string", "a key of a dict is a text")
    local entry = dict.entries[key]
    if entry and entry.expiresMs and entry.expiresMs < nowMs() then
      return nil
    end
    return entry
  end

  local function evictOldest()
    local oldest, oldestKey
    for key, entry in pairs(dict.entries) do
      if not oldest or entry.number < oldest.number then
        oldest, oldestKey = entry, key
      end
    end
    if oldestKey then
      remove(oldestKey)
      dict.evicted = dict.evicted + 1
    end
    return oldestKey ~= nil
  end

  local function freeExpired()
    for key, entry in pairs(dict.entries) do
      if entry.expiresMs and entry.expiresMs < nowMs() then
        remove(key)
      end
    end
  end

  -- Returns false where there is no memory.
  local function store(key, value, seconds, evicts, flags)
    local kind = type(value)
    assert(kind == "string" or kind == "number" or kind == "boolean", "a dict stores no " .. kind)
    local bytes = bytesOf(key, value)
    remove(key)
    if dict.used + bytes > dict.capacity then
      freeExpired()
    end
    local forcible = false
    while dict.used + bytes > dict.capacity do
      if not evicts or not evictOldest() then
        return false, forcible
      end
      forcible = true
    end
    dict.number = (dict.number or 0) + 1
    dict.entries[key] = {
      value = value,
      expiresMs = seconds and seconds > 0 and nowMs() + math.floor(seconds * 1000) or nil,
      bytes = bytes,
      number = dict.number,
      flags = flags,
    }
    dict.used = dict.used + bytes
    dict.count = dict.count + 1
    return true, forcible
  end

  local function set(key, value, seconds, evicts, flags)
    between()
    if value == nil then
      remove(key)
      return true, nil, false
    end
    local stored, forcible = store(key, value, seconds, evicts, flags)
    if not stored then
      return false, "no memory", forcible
    end
    return true, nil, forcible
  end

  local function add(key, value, seconds, evicts, flags)
    between()
    if live(key) then
      return false, "exists", false
    end
    local stored, forcible = store(key, value, seconds, evicts, flags)
    if not stored then
      return false, "no memory", forcible
    end
    return true, nil, forcible
  end

  function view.get(_, key)
    between()
    local entry = live(key)
    if not entry then
      return nil
    end
    return entry.value, entry.flags
  end

  function view.set(_, key, value, seconds, flags)
    return set(key, value, seconds, true, flags)
  end

  function view.safe_set(_, key, value, seconds, flags)
    return set(key, value, seconds, false, flags)
  end

  function view.add(_, key, value, seconds, flags)
    return add(key, value, seconds, true, flags)
  end

  function view.safe_add(_, key, value, seconds, flags)
    return add(key, value, seconds, false, flags)
  end

  function view.incr(_, key, by, init, seconds)
    between()
    local entry = live(key)
    if not entry then
      if not init then
        return nil, "not found", false
      end
      local stored, forcible = store(key, init + by, seconds, true)
      if not stored then
        return nil, "no memory", forcible
      end
      return init + by, nil, forcible
    end
    if type(entry.value) ~= "number" then
      return nil, "not a number", false
    end
    entry.value = entry.value + by
    return entry.value, nil, false
  end

  function view.delete(_, key)
    between()
    remove(key)
    return true, nil, false
  end

  function view.expire(_, key, seconds)
    between()
    local entry = live(key)
    if not entry then
      return nil, "not found"
    end
    entry.expiresMs = seconds > 0 and nowMs() + math.floor(seconds * 1000) or nil
    return true
  end

  function view.ttl(_, key)
    between()
    local entry = live(key)
    if not entry then
      return nil, "not found"
    end
    return entry.expiresMs and (entry.expiresMs - nowMs()) / 1000 or 0
  end

  function view.get_keys(_, max)
    local keys = {}
    for key in pairs(dict.entries) do
      if live(key) then
        keys[#keys + 1] = key
      end
    end
    table.sort(keys)
    if max ~= 0 then
      for i = #keys, (max or 1024) + 1, -1 do
        keys[i] = nil
      end
    end
    return keys
  end

  function view.flush_all()
    for key in pairs(dict.entries) do
      remove(key)
    end
  end

  function view.flush_expired()
    return 0
  end

  function view.capacity()
    return dict.capacity
  end

  -- In whole pages.
  function view.free_space()
    local free = dict.capacity - dict.used
    return free - free % 4096
  end

  return view
end

return sharedDict
