package sqlite

import (
	"testing"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/internal/sqlstore"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// TestUpgradeKeepsIntents migrates a file of the version before rebuilds, with
// a reset on its way: it is still one afterwards, and can be carried out.
func TestUpgradeKeepsIntents(t *testing.T) {
	ctx := watermarktest.Context(t)
	f := fresh(t).(file)
	d, steps, err := open(ctx, Options{Path: f.path})
	if err != nil {
		t.Fatal(err)
	}
	before := sqlstore.New(d, dialect(steps[:4]))
	if _, err := before.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	id := watermarktest.ID()
	if err := f.Exec(t, `INSERT INTO deltad_intent (id, pipeline, target, digest, actor, reason, accept_data_loss, state, created_at)
		VALUES ('`+id+`', 'ads', NULL, 'd1', 'ann', 'bad data', 1, 'pending', 1796034000000000)`); err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	s := watermarktest.Migrated(t, f)
	in, err := s.IntentByID(ctx, id)
	if err != nil || in.Kind != watermark.IntentReset || in.Bar != "" || in.Pause || in.Pane != (watermark.ManifestRef{}) || !in.AcceptDataLoss {
		t.Fatalf("after the upgrade: %+v, %v", in, err)
	}
	l := watermarktest.Acquire(t, s, "ads", watermark.RoleDelta)
	if err := s.FinishIntent(ctx, l, id, watermark.IntentApplied, ""); err != nil {
		t.Fatal(err)
	}
}
