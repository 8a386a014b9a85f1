"""What each notebook says: its tables arranged for a reader, and the sentences that hold a number.

One module per notebook. Nothing is computed here that is not a join, a pivot or a count, and no sentence is typed in by hand: titles,
answers and alt texts are made from the tables they stand beside, so they cannot disagree with them. Where a number is undefined the
sentence says so. Models are written ``{model:…}``, which the page prints in the model's colour.
"""
