import re,pathlib
R=pathlib.Path('/work/main')
def sub(p,a,b,n=1):
    f=R/p; s=f.read_text(); assert a in s,(p,a); f.write_text(s.replace(a,b))
sub('src/chary/__init__.py','    "growing",\n','    "growth",\n')
sub('pyproject.toml','chary.streaming | chary.growing','chary.streaming | chary.growth')
sub('pyproject.toml','  "chary.pictures",\n','  "chary.plots",\n  "chary.charts",\n')
sub('tests/reference_page.py','chary.growing','chary.growth')
p=R/'src/chary/audit/auditor.py'; s=p.read_text()
s=s.replace('''    modules = releases, releases, choices, choices, tests, tests, runs, runs
    found = [case for module in modules for case in module.CASES]
''','''    found = [
        *releases.NUMBERS,
        *releases.SUMS,
        *choices.CHOICES,
        *choices.CANDIDATES,
        *tests.THRESHOLDS,
        *tests.SPARSE_VECTORS,
        *runs.RUNS,
        *runs.SKETCHES,
    ]
'''); p.write_text(s)
p=R/'tests/learning/erm/test_estimators.py'; s=p.read_text()
s=s.replace('from chary.learning import erm\n','from chary.learning import linear\n').replace('erm.linear','linear'); p.write_text(s)
sub('src/chary/demo/panel.py','files("chary.demo")','files(__name__.rpartition(".")[0])')
p=R/'src/chary/streaming.py'; s=p.read_text()
s=s.replace('\n# Answers about','\n__all__ = ["ItemFrequency", "RobustAnswer", "RobustStream", "cancelling"]\n\n# Answers about',1); assert '__all__' in s; p.write_text(s)
sub('tests/docs/test_papers.py','"growing", "learning"','"growth", "learning"')
