// SPDX-License-Identifier: Apache-2.0

package claim

// A Ref is what a recipes.Claim embeds: it leads the engine's packages to its engine, and has no method that others
// could call.
type Ref struct{ engine *Claim }

func (r *Ref) claim() *Claim { return r.engine }

func (r *Ref) show(c *Claim) { r.engine = c }

// A Face is a *recipes.Claim.
type Face interface {
	claim() *Claim
	show(c *Claim)
}

// Of returns the engine of a *recipes.Claim.
func Of(c Face) *Claim { return c.claim() }

// Show makes face the *recipes.Claim of c. A claim is shown once: holders compare pointers.
func Show[F Face](face F, c *Claim) F {
	face.show(c)
	return face
}
