package sink

import (
	"fmt"
	"slices"
)

// A pane is one layer or several. Layer 0 is a whole pane; each further one says what has become of some keys since the layers below it:
// a document (files), a tombstone (tombstones), or that the pane has the key no more (left). Of all that a pane's layers say of a key the
// highest counts, and a layer says one thing of a key. "Has left" is no tombstone: what a base says of such a key is seen again.
//
// A manifest of several layers is of format 2, so that a reader that knows of none refuses it; every other stays what it was. What a pane
// of several layers is made of was written by several runs: see DataIDs.

// MaxLayer is the highest layer a pane may have.
const MaxLayer = 20

const layeredFormat = "deltad.manifest/2"

// Top is the highest layer of m; 0 for a pane that is whole by itself.
func (m Manifest) Top() int {
	top := 0
	for _, f := range m.DataFiles() {
		top = max(top, f.Layer)
	}
	return top
}

// formatOf is the major format that m needs.
func (m Manifest) formatOf() string {
	if m.Top() > 0 || len(m.Left) > 0 {
		return layeredFormat
	}
	return manifestFormat
}

// Layer is what a manifest lists of one layer, each list in key order.
type Layer struct {
	N                       int
	Files, Tombstones, Left []File
}

// Layers are the layers of m from 0 up to Top.
func (m Manifest) Layers() []Layer {
	layers := make([]Layer, m.Top()+1)
	for n := range layers {
		of := func(files []File) []File {
			return slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Layer != n })
		}
		layers[n] = Layer{N: n, Files: of(m.Files), Tombstones: of(m.Tombstones), Left: of(m.Left)}
	}
	return layers
}

// Maker is the run that wrote the highest layer: of a reset and of a rollback another one's, whose pane has the same rows. It is m's own run
// where there is no file.
func (m Manifest) Maker() string {
	maker, top := m.RunID, m.Top()
	for _, f := range m.DataFiles() {
		if id := idOf(f.Key); f.Layer == top && id != "" {
			maker = id
		}
	}
	return maker
}

// Bytes are those of the layer's files.
func (l Layer) Bytes() (n int64) {
	for _, files := range [][]File{l.Files, l.Tombstones, l.Left} {
		for _, f := range files {
			n += f.Bytes
		}
	}
	return n
}

// Over gives m the layers of below, and what m lists so far as one more on top of them. Without any file m is what below is.
func (m Manifest) Over(below Manifest) (Manifest, error) {
	top := below.Top() + 1
	if own := m.DataFiles(); len(own) > 0 && top > MaxLayer {
		return Manifest{}, fmt.Errorf("put %s over %s: it has %d layers already", m.RunID, below.RunID, top)
	}
	on := func(below, own []File) []File {
		out := slices.Clone(below)
		for _, f := range own {
			f.Layer = top
			out = append(out, f)
		}
		return out
	}
	m.Files, m.Tombstones, m.Left = on(below.Files, m.Files), on(below.Tombstones, m.Tombstones), on(below.Left, m.Left)
	return m, nil
}

// validateLayers: no layer is missing between 0 and Top, each list has them in order, and nothing leaves a pane that has no layer below.
// Retractions are a pane's own.
func (m Manifest) validateLayers(k *check) {
	k.that(m.Kind == Delta || m.Top() == 0 && len(m.Left) == 0, "files", "are in %d layers, and of a full index", m.Top()+1)
	there := map[int]bool{0: true}
	for _, list := range [][]File{m.Files, m.Tombstones, m.Left} {
		last := 0
		for _, f := range list {
			k.that(f.Layer >= last && f.Layer <= MaxLayer, "files.layer", "is %d for %s after %d, at most %d is allowed", f.Layer, f.Key, last, MaxLayer)
			last, there[f.Layer] = f.Layer, true
		}
	}
	for _, f := range m.Left {
		k.that(f.Layer > 0, "left", "has %s in layer 0, below which is nothing", f.Key)
	}
	for n := range min(m.Top(), MaxLayer) { // a number may say anything
		k.that(there[n], "files.layer", "is %d at most, and nothing is in layer %d", m.Top(), n)
	}
	for _, f := range m.Retractions {
		k.that(f.Layer == 0, "retractions", "has %s in layer %d", f.Key, f.Layer)
	}
}
