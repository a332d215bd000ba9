from .arrays import ArrayTasks as ArrayTasks
from .augment import (
    AugmentQuery as AugmentQuery,
    PaperTransform as PaperTransform,
    augment_query as augment_query,
    kornia_transform as kornia_transform,
    paper_transform as paper_transform,
)
from .images import (
    FewShotTasks as FewShotTasks,
    ImageClasses as ImageClasses,
    from_arrays as from_arrays,
    from_folder as from_folder,
    mini_imagenet as mini_imagenet,
    omniglot as omniglot,
)
from .planted import planted as planted
from .sampling import mix as mix, sample as sample, seeded as seeded
from .subset import Subset as Subset, hold_out as hold_out
from .synthetic import (
    Problem as Problem,
    RotationTasks as RotationTasks,
    rotation as rotation,
    translation as translation,
)
