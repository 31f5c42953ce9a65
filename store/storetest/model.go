package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/store"
)

// listModel compares random listings with a model of a dozen lines. Keys are made of few segments with the bytes around "/", so that
// order, prefixes, bounds and pages meet each other in every way. The seed is fixed: the same on every machine.
func (s suite) listModel(t *testing.T) {
	st := s.open(t)
	rnd := rand.New(rand.NewPCG(20261130, 5))
	segment := []string{"a", "b", "a-", "a.", "a0", "-", "ab", "b!", "0"}
	random := func() string {
		n := 1 + rnd.IntN(4)
		l := make([]string, n)
		for i := range l {
			l[i] = segment[rnd.IntN(len(segment))]
		}
		return strings.Join(l, "/")
	}
	var keys []string
	for range 120 {
		k := random()
		if !slices.Contains(keys, k) && (s.o.NoKeyAndChild+s.o.ShakyKeyAndChild == "" || !related(keys, k)) {
			keys = append(keys, k)
		}
	}
	fill(t, st, keys)
	slices.Sort(keys)
	cut := func(k string) string { return k[:rnd.IntN(len(k)+1)] }
	for i := range s.o.ModelChecks {
		o := store.ListOptions{MaxKeys: []int{0, 1, 2, 3, 10}[rnd.IntN(5)]}
		if i%3 > 0 {
			o.Prefix = cut(random())
		}
		if i%4 > 0 {
			o.Delimiter = "/"
		}
		if i%5 > 1 {
			o.StartAfter = []string{random(), cut(random()), store.After(random() + "/")}[rnd.IntN(3)]
		}
		wantKeys, wantPrefixes := model(keys, o)
		// Whether a prefix that StartAfter lies in is listed is left open by the contract.
		open := func(p string) bool { return strings.HasPrefix(o.StartAfter, p) && o.StartAfter != p }
		l := list(t, st, o)
		what := fmt.Sprintf("check %d: list %+v", i, o)
		equal(t, what+": keys", l.Keys, wantKeys)
		equal(t, what+": prefixes", slices.DeleteFunc(l.Prefixes, open), slices.DeleteFunc(wantPrefixes, open))
	}
}

func related(keys []string, k string) bool {
	return slices.ContainsFunc(keys, func(o string) bool { return strings.HasPrefix(o, k+"/") || strings.HasPrefix(k, o+"/") })
}

// model lists sorted keys.
func model(sorted []string, o store.ListOptions) (keys, prefixes []string) {
	for _, k := range sorted {
		if !strings.HasPrefix(k, o.Prefix) {
			continue
		}
		if i := strings.Index(k[len(o.Prefix):], o.Delimiter); o.Delimiter != "" && i >= 0 {
			p := k[:len(o.Prefix)+i+1]
			if p > o.StartAfter && !slices.Contains(prefixes, p) {
				prefixes = append(prefixes, p)
			}
			continue
		}
		if k > o.StartAfter {
			keys = append(keys, k)
		}
	}
	return keys, prefixes
}
