"""Claims on attacks."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.attacks import (
    adapter_checks,
    affine_checks,
    ascent_checks,
    ball_checks,
    decision_checks,
    ensemble_checks,
    linear_checks,
    loss_checks,
    random_start_checks,
    recorded_step_checks,
    result_checks,
    search_checks,
    threat_checks,
    whole_search_checks,
)
from droptics.papers.droptics_own.instruments import pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "recorded-steps",
        "Three steps of Apgd recorded as on a GPU write, into the tensors that they read, what three plain "
        "steps leave, to 1e-12: points, values, slopes, step sizes, best points and who is fooled, in linf, "
        "l2 and l1 balls inside [0, 1], with one run of an example or two. They count by step who is fooled "
        "for the first time, and keep the point where that is.",
        pair(recorded_step_checks.recorded_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "Field by field, after each of three steps, on eight examples of a tanh network.",
    ),
    room_claim(
        "random-starts",
        "Pgd with two runs on a ReLU network, first from random points, the inputs or given points pulled "
        'into the region, ends where single examples end that draw the same starts. With stop="fooled" '
        "examples that are wrong before stay at their inputs. Later runs of Apgd start at random or at "
        'points of their own; "nearest" aims next at the next nearest class. Who meets gradients of zero '
        "alone, and is not fooled, is stuck.",
        pair(random_start_checks.random_starts),
        ("attacks.Apgd", "attacks.Margin", "attacks.Pgd", "attacks.Threat"),
        "By autograd, example by example, in linf and l2.",
    ),
    Claim(
        "droptics-searches",
        "droptics, on thesis-eq6.3",
        "On 60 examples in five dimensions of an affine classifier of four classes and of an affine scorer, "
        "within .28 in linf and .58 in l2, Pgd, Apgd and, in linf, Bim with 20 steps each, aimed at every "
        "class, Fab with 20 steps and, in linf, Square with 15 runs of 15 queries fool exactly the examples "
        "whose least margin over the ball is negative; all points lie in the ball.",
        check=partial(affine_checks.searches, 1.0),
        control=partial(affine_checks.searches, 1.5),
        objects=("attacks.Pgd", "attacks.Apgd", "attacks.Fab", "attacks.Square", "attacks.attack"),
        note="The least margin is z_y - z_c - radius ||w_y - w_c|| in the dual norm, at the nearest class c. One "
        "run of squares is not enough, however many queries it has: it may end where no square leads on to "
        "any of several classes, and published squares leave out the last pixel of a line, which starts "
        "alone set. Ascents that are not aimed may miss a class in reach. The control takes 1.5 times the "
        "radius.",
    ),
    room_claim(
        "attacks-in-full",
        "Fgsm and Bim end, in linf and l2 balls and [0, 1], where signs or normalized slopes by autograd "
        "lead from the inputs, up rows of layers with hooks, too. Square's points, successes and queries are "
        "those of single examples that take the same uniform numbers, in linf, l2 and l1, with patience or "
        "not. proportion has the interval of Clopper and Pearson. robustness_curve counts whom the radius "
        "reaches within the box. attack calls networks not deterministic whose outputs, up to 100, waver by "
        "1e-9, and no steady one.",
        pair(loss_checks.attacks_in_full),
        (
            "attacks.attack",
            "attacks.robustness_curve",
            "attacks.Square",
            "attacks.Margin",
            "attacks.Reflected",
            "attacks.proportion",
        ),
        "From the same uniform numbers, example by example; losses that attacks climb by their formulas.",
    ),
    room_claim(
        "reachable-points",
        "For inputs in the box, or without one, in linf, l2 and l1: Region.project gives the nearest "
        "reachable point, support the point where a linear function is largest, advance the shortest move of "
        "a given rise that the box leaves room for. Without a box dual_norm is the rise of steepest, which "
        "in l1 passes over coordinates at a face that they would leave. random points are reachable, without "
        "a box at a mean distance of d / (d + 1) radii. perturb draws starts from the generator given.",
        pair(threat_checks.reachable_points),
        ("attacks.Threat", "attacks.perturb", "attacks.adapter.BIM"),
        "Beside scipy.optimize, to 1e-5; 400 draws in d = 6 dimensions. The adapter BIM with steps=0 takes "
        "int(min(255 eps + 4, 1.25 * 255 eps)) steps.",
    ),
    room_claim(
        "adaptive-steps",
        "In small linf and l2 balls Apgd takes four steps of twice the radius along signs or normalized "
        "slopes, from the second on three quarters of the step plus a quarter of the last move, each pulled "
        "into the ball; whom it does not fool it returns at the best point. On a leaky network, "
        "reflected_pgd returns the visited point of least score, score_floor is the largest of three floors "
        "below all scores, adversarial_sgd takes the steps of its formula.",
        pair(ascent_checks.adaptive_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "By automatic differentiation, on 8 and 7 examples.",
    ),
    room_claim(
        "told-robustness",
        "For two classes on a line whose margin is twice the coordinate, Fgsm, Bim and Pgd answer what their "
        "steps by hand do: points, margins, losses, distances, who is fooled, gradients, rates after each "
        "step, accuracies, and intervals with binomial tails of half of what their confidence leaves. The "
        "dictionary, JSON, table and page of a Robustness, and side_by_side of two, show its accuracies with "
        "their ends, and for each stage the method, who was attacked and found, gradients, queries and "
        "seconds.",
        pair(result_checks.told_robustness),
        ("attacks.Robustness", "attacks.attack", "attacks.Bim", "attacks.Fgsm", "attacks.Margin", "attacks.Pgd"),
        "Written out, for two results that differ in every number.",
    ),
    room_claim(
        "adapters",
        "On affine maps of two classes, by steps that add up to 2 eps, FGSM, BIM and PGD end at the image "
        "plus eps times the sign of w_c - w_y, clipped to the box, PGDL2, in a ball inside the box, at the "
        "image plus eps (w_c - w_y) / |w_c - w_y|, to 1e-4, or fool the map on their way. Starts are drawn "
        "from the seed and go on from call to call. A module in train mode is attacked in eval mode.",
        pair(adapter_checks.adapters),
        ("attacks.adapter.FGSM", "attacks.adapter.BIM", "attacks.adapter.PGD", "attacks.adapter.PGDL2"),
        "Written out; w_y and w_c, the weights of the right class and of the other, differ in every "
        "coordinate. One step goes up the loss that is given.",
    ),
    room_claim(
        "affine-ensembles",
        "On 24 examples of affine models of one, two and four outputs, robust_accuracy by Apgd, Pgd and Fab "
        "with 20 steps and Square with 12 queries, in linf, l2 and l1, calls wrong those of negative "
        "distance from the boundary, fooled those nearer than the radius, robust the others, but for "
        "distances within a thousandth of it. Run again from its checkpoint, or after an interruption, it "
        "ends at the same points. standard_attacks has five attacks on one output or two, six on more.",
        pair(search_checks.affine_ensembles),
        ("attacks.robust_accuracy", "attacks.attack", "attacks.standard_attacks"),
        "Distances to boundaries in the dual norm.",
    ),
    room_claim(
        "two-searches",
        "Apgd from the inputs, 8 steps and 2 runs on a ReLU network, calls fooled exactly whom it has wrong "
        "at the points returned, and leaves no other a smaller loss than at the inputs. value_and_slope "
        "gives the values, and slopes in the outputs, of a loss of one's own, of Logistic, "
        "Reflected(Logistic) and Margin of one score, of Margin and Dlr of four, and of Dlr aimed at a "
        "class; where cross-entropy saturates, scaled=False gives its direction, the softmax over wrong "
        "classes minus the right one.",
        pair(search_checks.two_searches),
        ("attacks.losses.value_and_slope",),
        "By automatic differentiation.",
    ),
    room_claim(
        "random-modules",
        "Averaged.of(module, draws=6, seed=9) is the logarithm of the mean softmax, for one output the mean, "
        "of passes of which the k-th draws by torch's seed 9 + k; single_accuracy is the mean accuracy of "
        "these passes, and again(9, 4) the same of nine passes by seed 4. attack warns where gradients "
        "vanish and where the model is not deterministic. attack, robustness_curve and robust_accuracy on a "
        "module in train mode give what they give in eval mode, and leave modes, buffers and torch's "
        "generator as they were.",
        pair(search_checks.random_modules),
        (
            "attacks.Averaged",
            "attacks.attack",
            "attacks.robust_accuracy",
            "attacks.robustness_curve",
            "attacks.Pgd",
            "attacks.Square",
            "attacks.Margin",
        ),
        "Written out; one module with dropout and batch norm.",
    ),
    room_claim(
        "radii-and-leaks",
        'robustness_curve by Pgd(Margin("every"), steps=30) on an affine classifier of three classes gives, '
        "in l2 and linf, the share of twelve examples no farther from the boundary than each radius. "
        "smallest_score of a leaky network of four units is y f - radius |grad f| where no unit changes its "
        "sign in the ball, and in the plane the least over 4,000 directions, to 1e-4.",
        pair(search_checks.radii_and_leaks),
        (
            "attacks.robustness_curve",
            "papers.thesis.leaky.smallest_score",
            "attacks.attack",
        ),
        "Distances in the dual norm; two networks in the plane.",
    ),
    room_claim(
        "threats",
        "For inputs in the box, or without one, in l2, l1 and linf: Threat.project gives the reachable point "
        "nearest to each point, and Region.advance, from points in the box, a move that changes a linear "
        "function by a rise, up or down, that the box leaves room for, stays in the box, and is the shortest "
        "such move in the norm.",
        (partial(ball_checks.threats, 1.0), partial(ball_checks.threats, 0.95)),
        ("attacks.Threat",),
        "Beside a solver, bisections, and 50 random reachable points; images of eight coordinates, some on "
        "faces of the box.",
    ),
    room_claim(
        "attack-losses",
        "value_and_slope gives, with j the likeliest wrong class: for Margin z_j - z_y, for "
        "Reflected(CrossEntropy) -log(1 + exp(z_y - z_j)), for Dlr (z_j - z_y) / (z_(1) - z_(3)), for "
        "CrossEntropy its own, and their slopes in the outputs. Aimed at class c, slopes are those of z_c - "
        "z_y, of its reflected loss, and of (z_c - z_y) / (z_(1) - (z_(3) + z_(4)) / 2), which is Dlr's "
        "value, too; the other values stay those of j. One score f has z_j - z_y = -y f.",
        (partial(ball_checks.attack_losses, 1.0), partial(ball_checks.attack_losses, 1.1)),
        ("attacks.Dlr", "attacks.losses.value_and_slope"),
        "By automatic differentiation; z_(k) is the k-th largest of five outputs; the slope of three outputs "
        "has the least for z_(4).",
    ),
    room_claim(
        "searches-in-full",
        "Pgd and Apgd from 14 inputs, aimed or not, on ReLU networks, end where loops end in which no "
        "example leaves: at the same points to 1e-6, with the same number of examples fooled after each "
        "step, and with those stuck who are not fooled and end within 1 % of the radius of their input; "
        "whether it is asked who is left after every step, at times, or never, recorded or not. Gradients "
        "are counted for who climbs or stays in a batch until enough can leave.",
        pair(whole_search_checks.whole_searches),
        ("attacks.Apgd", "attacks.Pgd", "attacks.Threat", "attacks.Dlr", "attacks.Margin", "attacks.Reflected"),
        "By autograd, all examples to the end.",
    ),
    room_claim(
        "ensembles-in-full",
        "smallest_margins of affine maps, and the margins of linear_attack, are the least over the corners "
        "of linf and l1 balls, in linf within a box, too; affine_map refuses maps bent by more than "
        "rounding. Averaged of a ReLU network is the mean softmax over all masks. Fab, with one run or "
        "three, ends where single examples end. Stages of robust_accuracy attack those who are left, or the "
        "part of least margin, and keep points, margins, who fooled whom, and sums of gradients and queries, "
        "as written out.",
        pair(ensemble_checks.ensembles_in_full),
        (
            "attacks.Averaged",
            "attacks.Fab",
            "attacks.Robustness",
            "attacks.linear_attack",
            "attacks.attack",
            "attacks.robust_accuracy",
            "attacks.smallest_margins",
            "attacks.affine_map",
            "attacks.proportion",
        ),
        "Corner by corner; all masks; all examples to the end of their walk.",
    ),
    room_claim(
        "decided-ways",
        "A stage of robust_accuracy attacks, in their order, the examples that no stage before has fooled, "
        "or the given share of them of least margin. A run that breaks off after 1, 2 or 4 batches goes on "
        "from its checkpoint to the same points, stages and counts; the checkpoint of another model, data, "
        "threat, methods or batch is refused. Who is wrong before, or not fooled, is returned at the input. "
        "Copies that tune_rates trains by another engine have the losses of this process.",
        pair(decision_checks.decided_ways),
        ("attacks.robust_accuracy", "attacks.standard_attacks"),
        "Example by example, number by number.",
    ),
    Claim(
        "droptics-linear-robustness",
        "droptics, on thesis-eq6.3",
        "For 50 examples of an affine classifier of three classes with offsets, robust_accuracy by Fgsm and "
        "LinearExact within .2 in linf, without a box, is the share whose margin is positive at all 16 "
        "corners, and smallest_margins are the least over the corners. The ends of the interval of k of n "
        "have binomial tails of 2.5 % at confidence 95 %, of 5 % at 90 %; the lower end is 0 for k = 0, the "
        "upper 1 for k = n.",
        check=partial(linear_checks.linear_robustness, 0.2),
        control=partial(linear_checks.linear_robustness, 0.15),
        objects=("attacks.robust_accuracy", "attacks.smallest_margins", "attacks.proportion"),
        note="By enumeration of the corners. The control takes radius .15.",
    ),
)
