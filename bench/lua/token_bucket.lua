-- Runs in Redis: one token bucket, as a hash of its tokens and the moment when they were counted.
-- KEYS the bucket   ARGV tokens per second, capacity, cost   reply [1 if allowed else 0, whole tokens left]
local rate, capacity, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call("TIME")
local now = time[1] + time[2] / 1000000
local bucket = redis.call("HMGET", KEYS[1], "tokens", "at")
local tokens = math.min(capacity, (tonumber(bucket[1]) or capacity) + (now - (tonumber(bucket[2]) or now)) * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
redis.call("HMSET", KEYS[1], "tokens", string.format("%.6f", tokens), "at", string.format("%.6f", now))
redis.call("PEXPIRE", KEYS[1], math.ceil((capacity - tokens) / rate * 1000) + 1)
return { allowed and 1 or 0, math.floor(tokens) }
