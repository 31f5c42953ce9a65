package daemon

import (
	"testing"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// renamed is a fn under a type id of its own.
type renamed struct {
	combine.Fn
	id string
}

func (r renamed) TypeID() string { return r.id }

// TestHashHasTheTypeIDsOfOwnFns, wherever they stand, and of no others.
func TestHashHasTheTypeIDsOfOwnFns(t *testing.T) {
	with := func(version string) map[string]combine.Builder {
		fns := combine.Builtins()
		b := fns["max"]
		b.Name = "own"
		inner := b.Build
		b.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
			fn, err := inner(p, args)
			return renamed{fn, "own(" + args[0].String() + ")/" + version}, err
		}
		fns["own"] = b
		return fns
	}
	pipeline := func(fields ...configs.Field) *configs.Pipeline {
		return &configs.Pipeline{Name: "p", Index: configs.Index{Key: []string{"id"}, Fields: fields}}
	}
	largest := configs.Field{Name: "a", Fn: "max", Columns: []string{"x"}}
	own := configs.Field{Name: "b", Fn: "own", Columns: []string{"x"}}
	within := configs.Field{Name: "c", Fn: configs.FnCollect, By: []string{"y"}, Fields: []configs.Field{own}}
	tests := []struct {
		name     string
		pipeline *configs.Pipeline
		depends  bool // on the version of own
	}{
		{"built in alone", pipeline(largest), false},
		{"own", pipeline(largest, own), true},
		{"own within collect", pipeline(within), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plain, one, again, two := configs.Hash(tt.pipeline), hashOf(tt.pipeline, with("1")), hashOf(tt.pipeline, with("1")), hashOf(tt.pipeline, with("2"))
			if one != again {
				t.Error("two hashes of one program")
			}
			if (one != two) != tt.depends || (one != plain) != tt.depends {
				t.Errorf("plain %.8s, version 1 %.8s, version 2 %.8s", plain, one, two)
			}
		})
	}
}
