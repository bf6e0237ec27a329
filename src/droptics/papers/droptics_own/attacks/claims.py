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
from droptics.papers.droptics_own.instruments import WRITTEN, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "recorded-steps",
        "A recorded step of an adaptive ascent leaves the numbers of a plain one in the tensors that it read, for one "
        "run of an example or several, and keeps the first point that fools.",
        pair(recorded_step_checks.recorded_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "Field by field, after each of three steps.",
    ),
    room_claim(
        "random-starts",
        "Ascents that begin at random points, and again at random after a run from the inputs or from given points: "
        "examples that are wrong from the start stay where they are if the fooled leave, and climb like all others if "
        "nobody does; points, counts and restarts are those of single examples. So are those of all wrong classes that "
        "are aimed at side by side from given points. Later runs of adaptive ascents begin at random, too, or where "
        "they are told to, and later runs aim at the next nearest class. Who meets no gradient where it starts is "
        "stuck.",
        pair(random_start_checks.random_starts),
        ("attacks.Apgd", "attacks.Margin", "attacks.Pgd", "attacks.Threat"),
        "By autograd, example by example.",
    ),
    Claim(
        "droptics-searches",
        "droptics, on thesis-eq6.3",
        "On 60 examples of an affine classifier and of a scorer, with steps enough, searches along gradients, aimed at "
        "every class, and to the boundary (linf and l2), of signs and, with restarts enough, of squares (linf) fool "
        "exactly the examples whose least margin over the ball is negative, and stay in the ball.",
        check=partial(affine_checks.searches, 1.0),
        control=partial(affine_checks.searches, 1.5),
        objects=("attacks.Pgd", "attacks.Apgd", "attacks.Fab", "attacks.Square", "attacks.attack"),
        note="The smallest margin is z_y - z_c - radius ||w_y - w_c|| in the dual norm. One run of squares is not "
        "enough, however many queries it has: it may end where no square leads on to any of several classes, and "
        "published squares leave out the last pixel of a line, which starts alone set. Ascents that are not aimed may "
        "miss a class in reach. The control takes 1.5 times the radius.",
    ),
    room_claim(
        "attacks-in-full",
        "Losses that attacks climb, aimed or not, what methods take unless they are told, sizes of steps, steps up "
        "layers in rows, with hooks and without, passes in half precision, whole random searches by squares with what "
        "their runs keep and repeat, judged searches, the reasons to doubt them and errors by radius are those of "
        "examples taken one by one.",
        pair(loss_checks.attacks_in_full),
        (
            "attacks.attack",
            "attacks.robustness_curve",
            "attacks.Square",
            "attacks.Margin",
            "attacks.Reflected",
            "attacks.proportion",
        ),
        "From the same uniform numbers, example by example.",
    ),
    room_claim(
        "reachable-points",
        "Projections, largest linear functions and shortest rises of every threat, with a box and without, are those "
        "of a solver; distances and dual norms their definitions, steepest directions attain these and pass over faces "
        "of the box; random points lie inside, without a box around the inputs and as far as uniform ones on average; "
        "points are inside up to the rounding of their coordinates. "
        "Threats are read as they are written, adapters take the published steps, starts are drawn from the generator "
        "that is given, batches are joined row by row, what cannot be attacked is refused.",
        pair(threat_checks.reachable_points),
        ("attacks.Threat", "attacks.perturb", "attacks.adapter.BIM"),
        "Beside scipy.optimize.",
    ),
    room_claim(
        "adaptive-steps",
        "Ascents with momentum, attacks on leaky networks, training under them and their floors go step by step as "
        "their formulas.",
        pair(ascent_checks.adaptive_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "By automatic differentiation.",
    ),
    room_claim(
        "told-robustness",
        "What an attack answers on a line is that of its steps by hand, field by field. Results of ensembles as "
        "dictionaries, JSON, tables and pages hold their numbers.",
        pair(result_checks.told_robustness),
        ("attacks.Robustness", "attacks.attack", "attacks.Bim", "attacks.Fgsm", "attacks.Margin", "attacks.Pgd"),
        WRITTEN,
    ),
    room_claim(
        "adapters",
        "Attacks that are called with images in [0, 1] end in the corner of ball and box that is worst for an affine "
        "score of two classes, or in the worst point of the sphere inside the box, or fool it on their way. They climb "
        "the loss that is given, draw starts by their seed from call to call, and run in eval mode.",
        pair(adapter_checks.adapters),
        ("attacks.adapter.FGSM", "attacks.adapter.BIM", "attacks.adapter.PGD", "attacks.adapter.PGDL2"),
        WRITTEN,
    ),
    room_claim(
        "affine-ensembles",
        "Ensembles of attacks on affine models fool exactly those nearer than the radius, but for those within a "
        "thousandth of it, resumed and interrupted runs too; by default they are five attacks on one output or two and "
        "six on more.",
        pair(search_checks.affine_ensembles),
        ("attacks.robust_accuracy", "attacks.attack", "attacks.standard_attacks"),
        "Distances to boundaries in the dual norm.",
    ),
    room_claim(
        "two-searches",
        "An adaptive search from the inputs says whom it fools and lowers no loss of the others; losses have the "
        "values and slopes of their formulas.",
        pair(search_checks.two_searches),
        ("attacks.losses.value_and_slope",),
        "By automatic differentiation.",
    ),
    room_claim(
        "random-modules",
        "Means over draws of a module are those of its passes, and doubts are told. A module in the midst of its "
        "training is attacked in eval mode and left as it was.",
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
        WRITTEN,
    ),
    room_claim(
        "radii-and-leaks",
        "Errors by radius of affine classifiers are those of distances; the lowest scores that a search finds for "
        "leaky networks are those of the affine piece where nothing bends within the ball, and in the plane those over "
        "all directions.",
        pair(search_checks.radii_and_leaks),
        (
            "attacks.robustness_curve",
            "papers.thesis.leaky.smallest_score",
            "attacks.attack",
        ),
        WRITTEN,
    ),
    room_claim(
        "threats",
        "Projections onto balls within boxes are nearest points; steps to a boundary, in a box or not, the shortest.",
        (partial(ball_checks.threats, 1.0), partial(ball_checks.threats, 0.95)),
        ("attacks.Threat",),
    ),
    room_claim(
        "attack-losses",
        "Losses of attacks and their slopes in the outputs, aimed at a class or not, are their definitions.",
        (partial(ball_checks.attack_losses, 1.0), partial(ball_checks.attack_losses, 1.1)),
        ("attacks.Dlr", "attacks.losses.value_and_slope"),
        "By automatic differentiation.",
    ),
    room_claim(
        "searches-in-full",
        "Projected and adaptive ascents, aimed or not, asked after every step, at times or never, recorded or not, end "
        "where loops end in which nobody leaves: points, who is fooled at which step, who is stuck. They take the "
        "gradients of who still climbs, and of those alone who stay beside them until enough can leave.",
        pair(whole_search_checks.whole_searches),
        ("attacks.Apgd", "attacks.Pgd", "attacks.Threat", "attacks.Dlr", "attacks.Margin", "attacks.Reflected"),
        "By autograd, all examples to the end.",
    ),
    room_claim(
        "ensembles-in-full",
        "Least margins of affine models, means over masks, boundary searches, blocks of a batch, every stage of an "
        "ensemble with who is left to it, and its results in words are those of examples taken one by one.",
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
        "Stages of an ensemble attack those who are left, from where they should, and a run that breaks off goes on "
        "with the same numbers; curves stand where their numbers put them; parts of a cluster add up.",
        pair(decision_checks.decided_ways),
        ("attacks.robust_accuracy", "attacks.standard_attacks"),
        "Example by example, number by number.",
    ),
    Claim(
        "droptics-linear-robustness",
        "droptics, on thesis-eq6.3",
        "For affine classifiers with offsets the robust accuracy of the ensemble and the smallest margins are those of "
        "the worst corner of the l_inf ball, without a box; the ends of its interval, at 95 % and at 90 %, have "
        "binomial tails of 2.5 % and 5 %, but for 0 where none is right and 1 where all are.",
        check=partial(linear_checks.linear_robustness, 0.2),
        control=partial(linear_checks.linear_robustness, 0.15),
        objects=("attacks.robust_accuracy", "attacks.smallest_margins", "attacks.proportion"),
        note="By enumeration of the corners.",
    ),
)
