package sink_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
)

// TestReadersOfOneLayerRefuseLayers: a pane of several layers is of format 2, which a reader of format 1 refuses; one layer is what it was.
func TestReadersOfOneLayerRefuseLayers(t *testing.T) {
	one, err := fullManifest().Encode()
	if err != nil || !bytes.HasPrefix(one, []byte(`{"format":"deltad.manifest/1",`)) || bytes.Contains(one, []byte(`"left":[`)) {
		t.Errorf("one layer is written as %.60s, %v", one, err)
	}
	three, err := fullLayers().Encode()
	if err != nil || !bytes.HasPrefix(three, []byte(`{"format":"deltad.manifest/2",`)) {
		t.Fatalf("three layers are written as %.60s, %v", three, err)
	}
	lying := bytes.Replace(three, []byte("manifest/2"), []byte("manifest/1"), 1)
	if m, err := sink.DecodeManifest(lying); err == nil {
		t.Errorf("layers that say they are of format 1 are taken: top %d", m.Top())
	}
	if _, err := sink.DecodeManifest(bytes.Replace(three, []byte("manifest/2"), []byte("manifest/2.3"), 1)); err != nil {
		t.Errorf("a later minor version: %v", err)
	}
	if _, err := sink.DecodeManifest(bytes.Replace(three, []byte("manifest/2"), []byte("manifest/20"), 1)); !errors.Is(err, sink.ErrFormat) {
		t.Errorf("format 20: %v, want ErrFormat", err)
	}
}

// TestOver: what a run wrote becomes the layer above all of the pane below, and nothing written leaves that pane as it is.
func TestOver(t *testing.T) {
	below := fullLayers()
	m := fullManifest()
	m.RunID = sinktest.ID(1, 9)
	m.Files[0].Key, m.Tombstones = sink.DataKey(m.RunID, "part-00000.parquet"), nil
	over, err := m.Over(below)
	if err != nil {
		t.Fatal(err)
	}
	if over.Top() != 3 || len(over.Files) != 4 || over.Files[3].Layer != 3 || over.Files[3].Key != m.Files[0].Key {
		t.Errorf("top %d, files %v", over.Top(), over.Files)
	}
	if !slices.EqualFunc(over.Tombstones, below.Tombstones, sameFile) || !slices.EqualFunc(over.Left, below.Left, sameFile) {
		t.Errorf("tombstones %v and left %v are not those below", over.Tombstones, over.Left)
	}
	if _, err := over.Encode(); err != nil {
		t.Error(err)
	}
	if want := []string{sinktest.ID(1, 1), sinktest.ID(1, 7), sinktest.ID(1, 8), m.RunID}; !slices.Equal(over.DataIDs(), want) {
		t.Errorf("made of %v, want %v", over.DataIDs(), want)
	}
	m.Files = nil
	same, err := m.Over(below)
	if err != nil || !slices.EqualFunc(same.DataFiles(), below.DataFiles(), sameFile) {
		t.Errorf("without a file of its own it has %v, %v", same.DataFiles(), err)
	}
	for below.Top() < sink.MaxLayer {
		f := below.Files[len(below.Files)-1]
		f.Layer++
		below.Files = append(below.Files, f)
	}
	if _, err := m.Over(below); err != nil {
		t.Errorf("nothing over the highest layer: %v", err)
	}
	m.Files = fullManifest().Files
	if _, err := m.Over(below); err == nil || !strings.Contains(err.Error(), "21 layers already") {
		t.Errorf("a layer too many: %v", err)
	}
}

func sameFile(a, b sink.File) bool {
	return a.Key == b.Key && a.Layer == b.Layer && a.SHA256 == b.SHA256
}

// TestLayersAreSplitByTheirNumber and count the bytes of their own files.
func TestLayersAreSplitByTheirNumber(t *testing.T) {
	m := fullLayers()
	m.Files[2].Bytes, m.Tombstones[1].Bytes, m.Left[0].Bytes = 100, 20, 3
	layers := m.Layers()
	if len(layers) != 3 {
		t.Fatalf("%d layers", len(layers))
	}
	for n, want := range []struct {
		files, tombstones, left int
		bytes                   int64
	}{{1, 1, 0, 2}, {1, 0, 1, 4}, {1, 1, 0, 120}} {
		l := layers[n]
		if l.N != n || len(l.Files) != want.files || len(l.Tombstones) != want.tombstones || len(l.Left) != want.left || l.Bytes() != want.bytes {
			t.Errorf("layer %d: %+v of %d bytes, want %+v", n, l, l.Bytes(), want)
		}
	}
}
