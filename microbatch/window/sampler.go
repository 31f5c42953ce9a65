package window

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/combine"
)

// What a Sampler takes: a cluster of keys that lie close together, so that a
// lookup in a slice mostly serves all of them, and where it has few another two.
const (
	clusters = 3
	// clusterSpan is how many keys a cluster looks at.
	clusterSpan = 64
	// sampleBytes bounds the accumulators that are kept of one run, and a
	// quarter of it those of one key: a larger one is not sampled.
	sampleBytes = 4 << 20
)

// SampleKeys is the most keys that a Sampler gives.
const SampleKeys = 32

// Sampler picks keys for the canary out of those that a fold offers it: at most
// SampleKeys, by a hash of key and seed. One seed and one sequence of keys give
// one sample; another seed gives another. It is for one goroutine.
type Sampler struct {
	seed  uint64
	count uint64
	kept  []cluster // by hash, the smallest first
	into  int       // the place in kept of the cluster that goes on; -1 for none
	limit uint64    // what was let go of had no smaller hash
	bytes int
	accs  []byte
	ends  []int
}

type cluster struct {
	hash    uint64
	tried   int
	bytes   int
	samples []Sample
}

// NewSampler returns a sampler that has seen nothing; seed names the run.
func NewSampler(seed string) *Sampler {
	h := fnv.New64a()
	h.Write([]byte(seed))
	return &Sampler{seed: h.Sum64(), into: -1, limit: 1<<64 - 1}
}

// Offer shows it the next key, above those before, whose accumulators are group
// g of the columns. parts says that they are made of more than one: such keys
// are preferred, a cluster has one other at most. A nil Sampler takes nothing.
func (s *Sampler) Offer(key []byte, columns []combine.Column, g uint32, parts bool) {
	if s.wants(key, parts) {
		s.keep(key, columns, g)
	}
}

// wants says whether the next key, as Offer has it, is to be kept.
func (s *Sampler) wants(key []byte, parts bool) bool {
	if s == nil {
		return false
	}
	begins := s.count == 0 || (s.count+s.seed)%clusterSpan == 0
	s.count++
	if begins {
		s.begin(key)
	}
	if s.into < 0 || !begins && !parts || s.kept[s.into].tried == SampleKeys {
		return false
	}
	s.kept[s.into].tried++
	return true
}

// pass lets keys go by that it wants for sure none of, n at most, and says how
// many: wants would have said so of each.
func (s *Sampler) pass(n int) int {
	if s == nil {
		return n
	}
	if s.count == 0 || s.into >= 0 && s.kept[s.into].tried < SampleKeys {
		return 0
	}
	until := (clusterSpan - (s.count+s.seed)%clusterSpan) % clusterSpan
	n = min(n, int(until))
	s.count += uint64(n)
	return n
}

// begin decides whether a cluster begins at the key.
func (s *Sampler) begin(key []byte) {
	s.into = -1
	h := s.hash(key)
	if h >= s.limit || len(s.kept) == clusters && h >= s.kept[clusters-1].hash {
		return
	}
	if len(s.kept) == clusters {
		s.drop()
	}
	s.into, _ = slices.BinarySearchFunc(s.kept, h, func(c cluster, h uint64) int {
		if c.hash < h {
			return -1
		}
		return 1
	})
	s.kept = slices.Insert(s.kept, s.into, cluster{hash: h})
}

// drop lets go of the cluster of the greatest hash.
func (s *Sampler) drop() {
	last := len(s.kept) - 1
	s.bytes -= s.kept[last].bytes
	s.limit = s.kept[last].hash
	s.kept[last] = cluster{}
	s.kept = s.kept[:last]
	if s.into == last {
		s.into = -1
	}
}

// keep copies the key's accumulators.
func (s *Sampler) keep(key []byte, columns []combine.Column, g uint32) {
	s.accs, s.ends = s.accs[:0], s.ends[:0]
	for _, col := range columns {
		s.accs = col.AppendAcc(s.accs, g)
		s.ends = append(s.ends, len(s.accs))
		if len(s.accs) > sampleBytes/4 {
			return
		}
	}
	all := bytes.Clone(s.accs)
	sample := Sample{Key: bytes.Clone(key), Accs: make([][]byte, len(columns))}
	from := 0
	for j, end := range s.ends {
		sample.Accs[j] = all[from:end:end]
		from = end
	}
	size := len(key) + len(all)
	for s.bytes+size > sampleBytes && len(s.kept) > 1 {
		s.drop()
		if s.into < 0 {
			return
		}
	}
	if s.bytes+size > sampleBytes {
		return
	}
	c := &s.kept[s.into]
	c.samples = append(c.samples, sample)
	c.bytes += size
	s.bytes += size
}

// Samples are those of the cluster of the smallest hash, filled up from the
// next ones, in the order of their keys.
func (s *Sampler) Samples() []Sample {
	var out []Sample
	for _, c := range s.kept {
		out = append(out, c.samples[:min(len(c.samples), SampleKeys-len(out))]...)
	}
	sortSamples(out)
	return out
}

// hash mixes the key with the seed, eight bytes at a time.
func (s *Sampler) hash(key []byte) uint64 {
	const a, b = 0x9e3779b97f4a7c15, 0xe7037ed1a0b428db
	h := s.seed ^ uint64(len(key))*a
	mix := func(x uint64) {
		hi, lo := bits.Mul64(h^x, b)
		h = hi ^ lo ^ a
	}
	for ; len(key) >= 8; key = key[8:] {
		mix(binary.LittleEndian.Uint64(key))
	}
	var tail [8]byte
	copy(tail[:], key)
	mix(binary.LittleEndian.Uint64(tail[:]))
	mix(a)
	return h
}
