// SPDX-License-Identifier: Apache-2.0

package redisfence

import "fmt"

// What a script answers with: one of these words, and what belongs to it.
const (
	wordDone    = "done"    // what the caller's script has returned
	wordStale   = "stale"   // the newest token
	wordHistory = "history" // the stored history
	wordRepeat  = "repeat"  // the script has run before
	wordDamage  = "damage"  // what is there instead of a token
	wordFence   = "fence"   // the error of a command on the fence
	wordScript  = "script"  // the error of the caller's script
)

// newest is the beginning of each script that asks for the newest token. The key holds its digits without a zero in front
// and, after a space, its history, if there is one. Zero needs a history: without both there is no key.
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

// first answers a repeat, and remember has the next one answered. A client that has lost an answer can send the same
// script again, with the same nonce. Older nonces are forgotten: the last 4096 of a resource are kept, for a minute after
// the last one. They are
// ordered by microseconds: within a second, the set would order them by chance, and forget the wrong ones.
const (
	first = `
	if redis.call("ZSCORE", runs, nonce) then return {"repeat"} end
`
	remember = `
	local now = redis.call("TIME")
	redis.call("ZADD", runs, string.format("%.0f", now[1] * 1000000 + now[2]), nonce)
	redis.call("ZREMRANGEBYRANK", runs, 0, -4097)
	redis.call("EXPIRE", runs, 60)
`
)

// check compares the tokens and raises the fence. Numbers in Lua are floating point, which cannot tell 2⁵³ from 2⁵³+1: so
// tokens are compared as digits, the longer one being the greater. The guard's own keys and arguments come last and are
// taken away, so that the caller's script finds its own where they were put.
//
// The caller's script is defined in front of all that, and so sees none of these variables: a name that it has not
// declared is the error that it is in Redis, and not the fence's key.
//
// Errors are caught and told as values, because of what can be concluded: those are answers, while an error of EVAL may
// be one of the connection.
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
	ask = `local key = KEYS[1]` + newest + `return {"done", newest}`

	set = `
local runs, key, nonce, token, history = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
` + first + remember + `
if history ~= "" then redis.call("SET", key, token .. " " .. history)
elseif token ~= "0" then redis.call("SET", key, token)
else redis.call("DEL", key) end
return {"done"}
`
)

// guarded returns script with the check behind it, and on the line on which it would stand alone: Redis names lines.
func guarded(script string) string { return begin + script + check }

// An answer is what one of these scripts has answered.
type answer struct {
	word  string
	value any // nil if there is none
}

func understood(reply any) (answer, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return answer{}, fmt.Errorf("the client returned a %T, not a list with something in it", reply)
	}
	word, ok := text(parts[0])
	if !ok {
		return answer{}, fmt.Errorf("the client returned a list that begins with a %T", parts[0])
	}
	a := answer{word: word}
	if len(parts) > 1 {
		a.value = parts[1]
	}
	return a, nil
}

// text returns a string of Redis, of which clients make one or the other.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}
