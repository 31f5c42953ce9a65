package daemon

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// hashOf is the hash of a pipeline's configuration: that of configs and, for
// fields whose fns deltad does not bring, their type ids. Those of built-in fns
// are a matter of the output format; a program that changes one of its own says
// so in the type id and nowhere else, and must publish anew.
func hashOf(c *configs.Pipeline, fns map[string]combine.Builder) string {
	sum := configs.Hash(c)
	ids := ownTypeIDs(nil, c.Index.Fields, fns, combine.Builtins())
	if len(ids) == 0 {
		return sum
	}
	h := sha256.New()
	for _, s := range append([]string{sum}, ids...) {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ownTypeIDs appends the type ids of the fields' fns that are not built in. The
// types of columns are not known before objects are read: typical ones stand
// for them.
func ownTypeIDs(ids []string, fields []configs.Field, fns, builtin map[string]combine.Builder) []string {
	for _, f := range fields {
		ids = ownTypeIDs(ids, f.Fields, fns, builtin)
		b, known := fns[f.Fn]
		if _, ours := builtin[f.Fn]; ours || !known {
			continue
		}
		args := len(f.Args())
		if f.Star {
			args = 0
		}
		for _, fn := range combinetest.Trials(b, f.Options(), args) {
			ids = append(ids, fn.TypeID())
		}
	}
	return ids
}
