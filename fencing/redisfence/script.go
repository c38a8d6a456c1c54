// SPDX-License-Identifier: Apache-2.0

package redisfence

import "fmt"

// A script replies with one of these words and a value.
const (
	wordDone    = "done"    // the result of the caller's script
	wordStale   = "stale"   // the newest token
	wordHistory = "history" // the stored history
	wordRepeat  = "repeat"  // the script has run before
	wordDamage  = "damage"  // the value in place of a token
	wordFence   = "fence"   // the error of a command on the fence
	wordScript  = "script"  // the error of the caller's script
)

// newest begins each script that reads the newest token. The value of the key is the token's digits without a leading zero
// and, after a space, its history, if there is one. Zero is stored only with a history: zero without a history is stored as
// no key.
const newest = `
	local kind = redis.call("TYPE", key).ok
	if kind ~= "string" and kind ~= "none" then return {"damage", "a key of type " .. kind} end
	local stored, newest, history = redis.call("GET", key), false, ""
	if stored then
		newest = string.match(stored, "^[1-9]%d*$")
		if not newest then newest, history = string.match(stored, "^([1-9]%d*) ([%w._-]+)$") end
		if not newest then newest, history = string.match(stored, "^(0) ([%w._-]+)$") end
		if not newest or #newest > 19 or #history > 64 then
			return {"damage", string.format("%q", string.sub(stored, 1, 40))}
		end
	end
`

// first detects a repeat, and remember records the nonce for that. A client that has lost a reply can resend the same script
// with the same nonce. The last 4096 nonces of a resource are kept, until a minute after the last one, and older ones are
// removed. They are ordered by microseconds: ordered by seconds, the set would order the nonces of one second by chance, and
// remove the wrong ones. When the server's clock is set back, the order continues after the last nonce: by the clock alone, a
// full set would remove each new nonce, and its script could run again. Microseconds since 1970 are below 2⁵³ until the year
// 2255, so that a number in Lua is exact, and the next one is greater.
//
// A script looks for its nonce before it compares tokens or histories. A repeat of a script that has run is not stale, even
// if a newer token has been admitted since: its caller would conclude that nothing was written.
const (
	first = `
	if redis.call("ZSCORE", runs, nonce) then return {"repeat"} end
`
	remember = `
	local now = redis.call("TIME")
	local score = now[1] * 1000000 + now[2]
	local last = redis.call("ZREVRANGE", runs, 0, 0, "WITHSCORES")
	if last[2] then score = math.max(score, tonumber(last[2]) + 1) end
	redis.call("ZADD", runs, string.format("%.0f", score), nonce)
	redis.call("ZREMRANGEBYRANK", runs, 0, -4097)
	redis.call("EXPIRE", runs, 60)
`
)

// check compares the tokens and raises the fence. Numbers in Lua are floating point, which cannot distinguish 2⁵³ from
// 2⁵³+1. Tokens are therefore compared as digits; the longer one is the greater. The guard's own keys and arguments come
// last and are removed, so that the caller's script finds its own at their positions.
//
// The caller's script is defined before all that, so that it cannot see these variables: an undeclared name is an error, as
// it is in Redis, and not the fence's key.
//
// Errors are caught and returned as values, because they lead to another conclusion: a returned error is a reply, while an
// error of EVAL may be one of the connection.
const (
	begin = `local script = function() `

	check = `
end
local key, runs = table.remove(KEYS), table.remove(KEYS)
local token, given, nonce = table.remove(ARGV), table.remove(ARGV), table.remove(ARGV)
local began = false
local ran, result = pcall(function()
` + first + newest + `
	if given ~= "" and history ~= "" and given ~= history then return {"history", history} end
	if newest and (#token < #newest or #token == #newest and token < newest) then return {"stale", newest} end
	if given ~= "" then history = given end
	local value = token
	if history ~= "" then value = token .. " " .. history end
` + remember + `
	if stored ~= value then redis.call("SET", key, value) end
	began = true
	return {"done", script()}
end)
if ran and result[1] == "done" and type(result[2]) == "table" and result[2].err then ran, result = false, result[2] end
if ran then return result end
return {began and "script" or "fence", type(result) == "table" and result.err or tostring(result)}
`
)

// The scripts of [Guard.Newest] and [Guard.Reset].
const (
	get = `local key = KEYS[1]` + newest + `return {"done", newest}`

	set = `
local runs, key, nonce, token, history = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
` + first + remember + `
if history ~= "" then redis.call("SET", key, token .. " " .. history)
elseif token ~= "0" then redis.call("SET", key, token)
else redis.call("DEL", key) end
return {"done"}
`
)

// guarded returns script with the check after it. The first line of script remains the first line: errors of Redis name
// lines.
func guarded(script string) string { return begin + script + check }

// An answer is the decoded reply of one of these scripts.
type answer struct {
	word  string
	value any // nil if there is none
}

func decode(reply any) (answer, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return answer{}, fmt.Errorf("the client returned a %T, want a non-empty list", reply)
	}
	word, ok := text(parts[0])
	if !ok {
		return answer{}, fmt.Errorf("the client returned a list that begins with a %T, want text", parts[0])
	}
	a := answer{word: word}
	if len(parts) > 1 {
		a.value = parts[1]
	}
	return a, nil
}

// text returns a Redis string, which clients decode as a string or as a []byte.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}
